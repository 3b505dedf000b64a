"""A real Chromium without a window, driven over WebDriver, for tests, screenshots and benches."""
