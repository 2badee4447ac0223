//! Answers as HTTP.

use std::io::Write as _;

use actix_web::http::StatusCode;
use actix_web::http::header;
use actix_web::{HttpResponse, HttpResponseBuilder};
use flate2::Compression;
use flate2::write::GzEncoder;
use trireme_machinery::status::Status;

use super::encode::{self, Style};
use super::stream;
use crate::pipeline::{Answer, Body, Context, RawAnswer, Request, Served};

/// Smaller answers are not worth compressing.
const COMPRESSED_FROM: usize = 128 << 10;

/// Writes what the pipeline served.
pub(super) fn respond(served: Served, request: &Request, style: Style, gzip: bool) -> HttpResponse {
    let Served { context, outcome } = served;
    match outcome {
        Ok(Answer::Object(answer)) => {
            let body = encode::object(&answer, &style);
            bytes(start(&context, answer.code), style.form.format.media_type(), body, gzip)
        }
        Ok(Answer::List(answer)) => {
            let body = encode::list(&answer, &style);
            bytes(start(&context, 200), style.form.format.media_type(), body, gzip)
        }
        Ok(Answer::Status(answer)) => status(&context, &answer, &style),
        Ok(Answer::Watch(watcher)) => stream::respond(start(&context, 200), *watcher, style, context),
        Ok(Answer::Raw(answer)) => raw(&context, answer, gzip),
        Err(refusal) => refused(&context, request, &refusal, &style),
    }
}

/// Writes a refusal.
pub(super) fn refused(context: &Context, request: &Request, refusal: &Status, style: &Style) -> HttpResponse {
    let outside = !request.info.path.starts_with("/api");
    if refusal.code == 404 && outside && !request.info.is_resource {
        return start(context, 404).content_type("text/plain; charset=utf-8").body("404 page not found\n");
    }
    status(context, refusal, style)
}

fn status(context: &Context, status: &Status, style: &Style) -> HttpResponse {
    let code = if status.code == 0 { 200 } else { status.code };
    let mut response = start(context, code);
    if let Some(seconds) =
        status.details.as_ref().map(|details| details.retry_after_seconds).filter(|seconds| *seconds > 0)
    {
        response.insert_header((header::RETRY_AFTER, seconds.to_string()));
    }
    let mut form = style.form.clone();
    form.shape = super::accept::Shape::Object;
    let value = serde_json::to_value(status).unwrap_or_default();
    response.content_type(form.format.media_type()).body(encode::value(&value, &form))
}

fn raw(context: &Context, answer: RawAnswer, gzip: bool) -> HttpResponse {
    let gzip =
        gzip && !answer.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(header::CONTENT_ENCODING.as_str()));
    let mut response = start(context, answer.code);
    for (name, value) in answer.headers {
        response.insert_header((name, value));
    }
    match answer.body {
        Body::Full(body) if body.is_empty() && answer.content_type.is_empty() => response.finish(),
        Body::Full(body) => bytes(response, &answer.content_type, body.to_vec(), gzip),
        Body::Stream(stream) => response.content_type(answer.content_type).streaming(stream),
    }
}

/// The head that every answer has.
fn start(context: &Context, code: u16) -> HttpResponseBuilder {
    let mut response = HttpResponse::build(StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR));
    response.insert_header(("Audit-Id", context.audit_id.clone()));
    response.insert_header((header::CACHE_CONTROL, "no-cache, private"));
    if let Some(trace) = context.trace {
        response.insert_header(("traceparent", trace.to_string()));
    }
    for warning in context.warnings() {
        response.append_header((header::WARNING, warning_header(&warning)));
    }
    response
}

fn warning_header(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("299 - \"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn bytes(mut response: HttpResponseBuilder, content_type: &str, body: Vec<u8>, gzip: bool) -> HttpResponse {
    response.content_type(content_type);
    if gzip && body.len() >= COMPRESSED_FROM {
        let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 8), Compression::fast());
        let compressed = encoder.write_all(&body).and_then(|()| encoder.finish());
        if let Ok(compressed) = compressed {
            response.insert_header((header::CONTENT_ENCODING, "gzip"));
            response.insert_header((header::VARY, "Accept-Encoding"));
            return response.body(compressed);
        }
    }
    response.body(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_quoted() {
        assert_eq!(warning_header("unknown field \"spec.x\""), "299 - \"unknown field \\\"spec.x\\\"\"");
    }
}
