//! Profiles as text.

use crate::endpoint;
use linkerd2_proxy_api::destination::{
    request_match::Match as Request, response_match::Match as Response, DestinationProfile,
    RequestMatch, ResponseMatch, Route, WeightedDst,
};
use linkerd2_proxy_api::http_types::{http_method::Type as Method, HttpMethod};
use linkerd2_proxy_api::meta::{metadata::Kind, Metadata};

pub fn reference(m: &Option<Metadata>) -> String {
    match m.as_ref().and_then(|m| m.kind.as_ref()) {
        Some(Kind::Resource(r)) => format!(
            "{}/{}/{}/{}:{}",
            r.group, r.kind, r.namespace, r.name, r.port
        ),
        Some(Kind::Default(name)) => name.clone(),
        None => String::new(),
    }
}

fn method(m: &HttpMethod) -> String {
    match &m.r#type {
        Some(Method::Registered(number)) => format!("#{number}"),
        Some(Method::Unregistered(name)) => name.clone(),
        None => "none".to_string(),
    }
}

fn requests(list: &[RequestMatch]) -> String {
    list.iter().map(request).collect::<Vec<_>>().join(",")
}

fn request(m: &RequestMatch) -> String {
    match &m.r#match {
        Some(Request::All(s)) => format!("all({})", requests(&s.matches)),
        Some(Request::Any(s)) => format!("any({})", requests(&s.matches)),
        Some(Request::Not(n)) => format!("not({})", request(n)),
        Some(Request::Path(p)) => format!("path({})", p.regex),
        Some(Request::Method(m)) => format!("method({})", method(m)),
        None => "none".to_string(),
    }
}

fn response(m: &Option<ResponseMatch>) -> String {
    match m.as_ref().and_then(|m| m.r#match.as_ref()) {
        Some(Response::Status(s)) => format!("{}-{}", s.min, s.max),
        other => format!("{other:?}"),
    }
}

fn route(r: &Route) -> String {
    let mut words: Vec<String> = r
        .metrics_labels
        .iter()
        .map(|(k, v)| format!("{k}={v}"))
        .collect();
    words.push(r.condition.as_ref().map(request).unwrap_or_default());
    if let Some(t) = &r.timeout {
        words.push(format!(
            "timeout={}ms",
            t.seconds * 1000 + i64::from(t.nanos) / 1_000_000
        ));
    }
    if r.is_retryable {
        words.push("retries".to_string());
    }
    for c in &r.response_classes {
        words.push(format!(
            "{}={}",
            response(&c.condition),
            if c.is_failure { "failure" } else { "success" }
        ));
    }
    format!("[{}]", words.join(" "))
}

fn destination(d: &WeightedDst) -> String {
    format!("{}={}", d.authority, d.weight)
}

/// A profile in a line.
pub fn text(p: DestinationProfile) -> String {
    let overrides: Vec<String> = p.dst_overrides.iter().map(destination).collect();
    let backends: Vec<String> = p
        .dst_overrides
        .iter()
        .map(|d| reference(&d.backend_ref))
        .collect();
    let routes: Vec<String> = p.routes.iter().map(route).collect();
    let budget = p.retry_budget.as_ref().map(|b| {
        format!(
            "{}/{}/{}s",
            b.retry_ratio,
            b.min_retries_per_second,
            b.ttl.map_or(0, |t| t.seconds)
        )
    });
    format!(
        "profile name={} opaque={} overrides={} routes={} endpoint={} budget={} parent={} profile={} backends={} {}",
        p.fully_qualified_name,
        p.opaque_protocol,
        overrides.join(","),
        p.routes.len(),
        p.endpoint.as_ref().map(endpoint).unwrap_or_default(),
        budget.unwrap_or_default(),
        reference(&p.parent_ref),
        reference(&p.profile_ref),
        backends.join(","),
        routes.join(" "),
    )
}
