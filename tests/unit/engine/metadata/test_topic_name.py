import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.metadata.errors import TopicNameError
from readonly_engine.metadata.topic_name import decode_name, encode_name, parse_topic_name

# What java.net.URLEncoder.encode(text, UTF_8) of Java 17 gives.
JAVA = [
    ("orders", "orders"),
    ("a b", "a+b"),
    ("a~b", "a%7Eb"),
    ("a*b", "a*b"),
    ("a.b-c_d", "a.b-c_d"),
    ("a/b", "a%2Fb"),
    ("a+b", "a%2Bb"),
    ("a%b", "a%25b"),
    ("é", "%C3%A9"),
    ("日本", "%E6%97%A5%E6%9C%AC"),
    ("😀", "%F0%9F%98%80"),
    ("a:b@c=d", "a%3Ab%40c%3Dd"),
    ("(x)!'\"$&,;?#[]", "%28x%29%21%27%22%24%26%2C%3B%3F%23%5B%5D"),
    ("a\\b|c^d`e{f}<g>", "a%5Cb%7Cc%5Ed%60e%7Bf%7D%3Cg%3E"),
]


@pytest.mark.parametrize(("name", "encoded"), JAVA)
def test_names_are_encoded_as_java_does(name, encoded):
    assert encode_name(name) == encoded


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("orders", "persistent://public/default/orders"),
        ("a-b/c.d/orders", "persistent://a-b/c.d/orders"),
        ("persistent://t/n/orders", "persistent://t/n/orders"),
        ("non-persistent://t/n/orders", "non-persistent://t/n/orders"),
        ("persistent://.t/n../orders", "persistent://.t/n../orders"),
        ("persistent://t/n/with space/and slash", "persistent://t/n/with space/and slash"),
    ],
)
def test_names_in_full_and_as_short_as_clients_write_them(text, full):
    assert str(parse_topic_name(text)) == full


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "a/b",
        "persistent://",
        "persistent://a/b",
        "persistent://a/b/",
        "persistent://a//c",
        "persistent://a b/n/t",
        "a*/n/t",
        "persistent://../n/t",
        "persistent://t/../x",
        "t/./x",
    ],
)
def test_what_is_no_topic_is_named_and_what_would_be_one(text):
    with pytest.raises(TopicNameError, match="persistent://TENANT/NAMESPACE/TOPIC") as error:
        parse_topic_name(text)
    assert repr(text) in str(error.value)


def test_another_domain_is_named():
    with pytest.raises(
        TopicNameError, match=r"starts with kafka://; it must start with persistent:// or non-persistent://"
    ):
        parse_topic_name("kafka://t/n/orders")


@pytest.mark.parametrize(
    ("name", "partition", "base"),
    [
        ("orders", -1, "orders"),
        ("orders-partition-0", 0, "orders"),
        ("orders-partition-12", 12, "orders"),
        ("orders-partition-1-partition-2", 2, "orders-partition-1"),
        ("orders-partition-", -1, "orders-partition-"),
        ("orders-partition-x", -1, "orders-partition-x"),
        ("orders-partition--1", -1, "orders-partition--1"),
        ("orders-partition-01", -1, "orders-partition-01"),  # a stock owner delivers its messages with partition -1
        ("orders-partition-²", -1, "orders-partition-²"),
        ("orders-partition-0-DLQ", -1, "orders-partition-0-DLQ"),
    ],
)
def test_partitions(name, partition, base):
    topic = parse_topic_name(f"persistent://t/n/{name}")
    assert topic.partition == partition
    assert str(topic.base) == f"persistent://t/n/{base}"


def test_the_admin_apis_path_of_a_topic():
    assert parse_topic_name("persistent://t/n/a b/c").rest_path == "persistent/t/n/a+b%2Fc"


def test_the_partitions_of_a_topic():
    topic = parse_topic_name("persistent://shop/eu/new orders")
    assert str(topic.at(3)) == "persistent://shop/eu/new orders-partition-3"
    assert topic.at(3).base == topic
    assert topic.at(3).partition == 3
    assert topic.partitions_path == "/admin/partitioned-topics/shop/eu/persistent/new+orders"


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=20))
def test_a_stored_name_is_the_name_again(name):
    assert decode_name(encode_name(name)) == name
