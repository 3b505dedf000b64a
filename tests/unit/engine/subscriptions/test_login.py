"""Login of the command at an OAuth 2.0 server that gives no token."""

import asyncio
import json
import socket

import pytest
from readonly_engine.subscriptions.cursors import pool_cursors
from readonly_engine.subscriptions.forced import forced_changes
from readonly_engine.subscriptions.settings import make_tool_config
from readonly_engine.tool.errors import ToolError


@pytest.fixture
def config(tmp_path):
    key_file = tmp_path / "key.json"
    key_file.write_text(json.dumps({"client_id": "me", "client_secret": "s3cret"}))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    return make_tool_config(
        {},
        {
            "service-url": "pulsar://127.0.0.1:1",
            "admin-url": "http://127.0.0.1:1",
            "pool-service-url": "pulsar://127.0.0.1:1",
            "admin-oauth2": f"{{issuer-url: 'http://127.0.0.1:{port}', key-file: {key_file}}}",
        },
    )


@pytest.mark.parametrize("make", [forced_changes, pool_cursors])
def test_the_reason_is_that_there_is_no_token_and_not_that_an_empty_one_is_refused(config, make):
    async def use():
        async with make(config):
            pass

    with pytest.raises(
        ToolError, match=r"--admin-oauth2: http://127\.0\.0\.1:\d+: request failed, ClientConnector"
    ) as error:
        asyncio.run(use())
    assert "s3cret" not in str(error.value)
