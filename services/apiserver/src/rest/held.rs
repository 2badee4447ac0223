//! Answers that keep the rest of the request's body.

use std::pin::Pin;
use std::task::{Context, Poll};

use actix_web::HttpResponse;
use actix_web::body::{BodySize, BoxBody, MessageBody};
use bytes::Bytes;

/// An answer's body, and what nobody read of the request's.
///
/// The server waits without end for the rest of a chunked body that was dropped, to use the connection again. One that is
/// still held when the answer is out closes it.
struct Held<R> {
    body: BoxBody,
    _rest: R,
}

/// The answer, which ends the connection if the request's body has not ended by then.
pub(crate) fn held<R: Unpin + 'static>(response: HttpResponse, rest: R) -> HttpResponse {
    response.map_body(|_, body| BoxBody::new(Held { body, _rest: rest }))
}

impl<R: Unpin> MessageBody for Held<R> {
    type Error = <BoxBody as MessageBody>::Error;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        self.body.as_pin_mut().poll_next(cx)
    }
}
