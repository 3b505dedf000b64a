import pytest
from readonly_engine import __version__
from readonly_engine.command import main


def test_without_a_command_it_says_how_and_fails(capsys):
    assert main([]) == 2
    assert "usage: pulsar-readonly COMMAND" in capsys.readouterr().out


def test_the_version(capsys):
    assert main(["--version"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"pulsar-readonly {__version__}"
    assert [line.partition(":")[0] for line in lines[1:]] == ["commit", "Python", "native modules"]


def test_an_unknown_command_is_named_with_those_that_there_are(capsys):
    assert main(["sevre", "--help"]) == 2
    names = "demo, serve, wake, doctor, plan, top, topic, subscriptions, replay, export, operator"
    assert capsys.readouterr().err == f"pulsar-readonly: no command 'sevre'; there are {names}\n"


def test_arguments_go_to_the_part(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["serve", "--help"])
    assert ended.value.code == 0
    out = capsys.readouterr().out
    assert "usage: pulsar-readonly serve" in out
    assert "zk:HOST:PORT" in out
    assert "oxia://HOST:PORT" in out
