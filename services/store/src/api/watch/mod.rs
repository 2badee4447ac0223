//! Watch.
//!
//! A stream is one task that owns its watches. It is woken by new views, takes the revisions as they come from the state
//! machine, and reads from the view what it missed, so a slow client costs nobody but itself. Revisions go out in order,
//! each once and whole.
mod stream;
mod watcher;

use std::pin::Pin;

use futures::Stream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use trireme_proto::etcdserverpb::watch_server::Watch;
use trireme_proto::etcdserverpb::{WatchRequest, WatchResponse};

use super::Api;

/// Responses that wait for the client before its stream stands still.
const OUT: usize = 16;

#[tonic::async_trait]
impl Watch for Api {
    type WatchStream = Pin<Box<dyn Stream<Item = Result<WatchResponse, Status>> + Send>>;

    async fn watch(&self, request: Request<Streaming<WatchRequest>>) -> Result<Response<Self::WatchStream>, Status> {
        let (out, responses) = mpsc::channel(OUT);
        let task = stream::WatchStream::new(self.clone(), out);
        tokio::spawn(task.run(request.into_inner()));
        Ok(Response::new(Box::pin(ReceiverStream::new(responses))))
    }
}
