//! Answers that keep the rest of the request's body.

use std::pin::Pin;
use std::task::{Context, Poll};

use actix_web::HttpResponse;
use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::web::Payload;
use bytes::Bytes;

/// An answer's body, and what nobody read of the request's.
///
/// The server waits without end for the rest of a chunked body that was dropped, to use the connection again. One that is
/// still held when the answer is out closes it.
struct Held {
    body: BoxBody,
    _rest: Payload,
}

/// The answer, which ends the connection if the request's body has not ended by then.
pub(super) fn held(response: HttpResponse, rest: Payload) -> HttpResponse {
    response.map_body(|_, body| BoxBody::new(Held { body, _rest: rest }))
}

impl MessageBody for Held {
    type Error = <BoxBody as MessageBody>::Error;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        self.body.as_pin_mut().poll_next(cx)
    }
}
