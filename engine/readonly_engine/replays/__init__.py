"""The command `pulsar-readonly replay`: show, pause, resume, speed up, seek and delete the replays of a pool."""
