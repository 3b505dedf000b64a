"""The command `pulsar-readonly replay`: show, pause, resume, speed up and delete the replays of a pool."""
