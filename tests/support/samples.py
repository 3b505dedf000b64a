"""Samples of an exposition in Prometheus' text format."""

from prometheus_client.parser import text_string_to_metric_families


def values_of(text: str, name: str, **labels: str) -> list[float]:
    """Return the values of the samples with a name, and with at least these labels.

    Args:
        text: the exposition.
        name: name of the samples, with its suffix (_total, _count).
        labels: some of the labels.
    """
    return [
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]


def value_of(text: str, name: str, **labels: str) -> float:
    """Return the value of the only such sample.

    Raises:
        ValueError: there is none, or more than one.
    """
    (found,) = values_of(text, name, **labels)
    return found
