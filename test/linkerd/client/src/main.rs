//! Asks a Destination server by the bindings that Linkerd's own proxy is built with, and prints a line for each
//! message: `client get|profile http://ADDRESS PATH [TOKEN]`. It ends when the stream does, with the status.

mod profile;

use linkerd2_proxy_api::destination::{
    destination_client::DestinationClient, protocol_hint::Protocol, tls_identity::Strategy,
    update::Update as Kind, GetDestination, Update, WeightedAddr,
};
use linkerd2_proxy_api::net::TcpAddress;
use std::net::SocketAddr;

fn address(addr: Option<TcpAddress>) -> String {
    match addr.map(SocketAddr::try_from) {
        Some(Ok(a)) => a.to_string(),
        _ => "invalid".to_string(),
    }
}

fn endpoint(w: &WeightedAddr) -> String {
    let mut words = vec![address(w.addr.clone()), format!("weight={}", w.weight)];
    for name in ["instance", "node", "zone_locality"] {
        if let Some(value) = w.metric_labels.get(name) {
            words.push(format!("{name}={value}"));
        }
    }
    if let Some(tls) = &w.tls_identity {
        let uri = match &tls.strategy {
            Some(Strategy::UriLikeIdentity(u)) => u.uri.clone(),
            _ => "none".to_string(),
        };
        let name = tls
            .server_name
            .as_ref()
            .map(|n| n.name.clone())
            .unwrap_or_default();
        words.push(format!("identity={uri} server_name={name}"));
    }
    match w.protocol_hint.as_ref().and_then(|h| h.protocol.as_ref()) {
        Some(Protocol::H2(_)) => words.push("h2".to_string()),
        Some(Protocol::Opaque(_)) => words.push("opaque".to_string()),
        None => {}
    }
    if let Some(k) = w.http2.as_ref().and_then(|h| h.keep_alive.as_ref()) {
        let (interval, timeout) = (
            k.interval.as_ref().map_or(0, |d| d.seconds),
            k.timeout.as_ref().map_or(0, |d| d.seconds),
        );
        words.push(format!("keepalive={interval}s/{timeout}s"));
    }
    if let Some(o) = &w.authority_override {
        words.push(format!("authority={}", o.authority_override));
    }
    words.push(format!("ref={}", profile::reference(&w.resource_ref)));
    words.join(",")
}

fn update(u: Update) -> String {
    match u.update {
        Some(Kind::Add(set)) => {
            let mut list: Vec<String> = set.addrs.iter().map(endpoint).collect();
            list.sort();
            let service = set
                .metric_labels
                .get("service")
                .cloned()
                .unwrap_or_default();
            let mut labels: Vec<String> = set
                .metric_labels
                .iter()
                .map(|(k, v)| format!("{k}={v}"))
                .collect();
            labels.sort();
            format!(
                "add service={service} {} {}",
                list.join(" "),
                labels.join(",")
            )
        }
        Some(Kind::Remove(set)) => {
            let mut list: Vec<String> = set.addrs.into_iter().map(|a| address(Some(a))).collect();
            list.sort();
            format!("remove {}", list.join(" "))
        }
        Some(Kind::NoEndpoints(n)) => format!("none exists={}", n.exists),
        None => "nothing".to_string(),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [kind, server, path, rest @ ..] = args.as_slice() else {
        return Err("usage: client get|profile http://ADDRESS PATH [TOKEN]".into());
    };
    let mut client = DestinationClient::connect(server.clone()).await?;
    let question = GetDestination {
        scheme: String::new(),
        path: path.clone(),
        context_token: rest.first().cloned().unwrap_or_default(),
    };
    let end = if kind == "get" {
        follow(client.get(question).await, update).await
    } else {
        follow(client.get_profile(question).await, profile::text).await
    };
    println!("end {:?}", end);
    Ok(())
}

/// Prints the messages of a stream, and returns the status that it ends with.
async fn follow<T>(
    stream: Result<tonic::Response<tonic::Streaming<T>>, tonic::Status>,
    text: fn(T) -> String,
) -> tonic::Code {
    let mut stream = match stream {
        Ok(response) => response.into_inner(),
        Err(status) => return status.code(),
    };
    loop {
        match stream.message().await {
            Ok(Some(message)) => println!("{}", text(message)),
            Ok(None) => return tonic::Code::Ok,
            Err(status) => return status.code(),
        }
    }
}
