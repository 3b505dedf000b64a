//! Consumes a topic with the crate `pulsar`, and reports each event as a line of JSON.

use std::{env, time::Duration};

use futures::TryStreamExt;
use pulsar::{
    consumer::{InitialPosition, Message},
    Consumer, ConsumerOptions, Error, Pulsar, SubType, TokioExecutor,
};
use serde_json::{json, Value};

fn setting(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("{name} is missing"))
}

fn report(event: Value) {
    println!("{event}");
}

/// The number of messages so far, and of those to wait for.
struct Received {
    number: usize,
    count: usize,
}

impl Received {
    /// Reports a message; returns whether it was the last one.
    fn add(&mut self, message: &Message<Vec<u8>>) -> bool {
        let id = &message.message_id.id;
        let (partition, batch) = (id.partition.unwrap_or(-1), id.batch_index.unwrap_or(-1));
        report(json!({
            "event": "message",
            "payload": String::from_utf8_lossy(&message.payload.data),
            "id": format!("{}:{}:{partition}:{batch}", id.ledger_id, id.entry_id),
            "redeliveries": null,
        }));
        self.number += 1;
        self.number >= self.count
    }
}

async fn consume(idle: Duration, mut received: Received) -> Result<(), Error> {
    let client = Pulsar::builder(setting("SERVICE_URL"), TokioExecutor).build().await?;
    let builder = client
        .consumer()
        .with_topic(setting("TOPIC"))
        .with_subscription(setting("SUBSCRIPTION"))
        .with_consumer_name("consume")
        .with_options(ConsumerOptions::default().with_initial_position(InitialPosition::Earliest));
    let sub_type = match setting("SUBSCRIPTION_TYPE").as_str() {
        "Exclusive" => SubType::Exclusive,
        "Failover" => SubType::Failover,
        "Shared" => SubType::Shared,
        "Key_Shared" => SubType::KeyShared,
        _ => {
            // A reader of this crate acks by itself, and has nothing to close it.
            let mut reader = builder.into_reader::<Vec<u8>>().await?;
            report(json!({"event": "ready"}));
            while let Ok(next) = tokio::time::timeout(idle, reader.try_next()).await {
                if next?.map_or(true, |message| received.add(&message)) {
                    break;
                }
            }
            return Ok(());
        }
    };
    let mut consumer: Consumer<Vec<u8>, _> = builder.with_subscription_type(sub_type).build().await?;
    report(json!({"event": "ready"}));
    while let Ok(next) = tokio::time::timeout(idle, consumer.try_next()).await {
        let Some(message) = next? else { break };
        let last = received.add(&message);
        consumer.ack(&message).await?;
        if last {
            break;
        }
    }
    consumer.close().await
}

#[tokio::main]
async fn main() {
    env_logger::Builder::new().parse_filters("info").init(); // to stderr
    let received = Received { number: 0, count: setting("COUNT").parse().expect("COUNT") };
    let idle = Duration::from_secs(setting("IDLE_SECONDS").parse().expect("IDLE_SECONDS"));
    if let Err(error) = consume(idle, received).await {
        report(json!({"event": "error", "text": error.to_string()}));
        std::process::exit(1);
    }
    report(json!({"event": "done"}));
}
