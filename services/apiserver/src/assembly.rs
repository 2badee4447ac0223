//! What is built on top of objects, given to the engine.

use std::sync::Arc;

use trireme_service::tasks::Tasks;

use crate::config::Config;
use crate::pipeline::engine::Parts;
use crate::pipeline::{Answer, Context, Documents, Engine, Handler, Objects, Reader, Request};
use crate::rest::Connect;
use crate::{admission, auth, discovery};
use async_trait::async_trait;
use trireme_machinery::status::Status;

/// Equips the engine and starts the duties. Answers what opens streams to Pods.
pub fn equip(engine: &Engine, config: &Arc<Config>, tasks: &Tasks) -> anyhow::Result<Option<Arc<dyn Connect>>> {
    let _ = tasks;
    let objects: Arc<dyn Objects> = Arc::new(engine.clone());
    let reader: Arc<dyn Reader> = Arc::new(engine.reader.clone());
    let auth::Parts { authenticator, authorizer } = auth::build(config, &reader, &engine.kinds)?;
    let admission = admission::Chain::new(&objects, &authorizer, &engine.kinds, &config.disable_admission_plugins)?;
    let discovery = discovery::Discovery::new(&engine.kinds, &config.rest_address().to_string());
    let documents: Vec<Arc<dyn Documents>> = vec![Arc::new(discovery)];
    engine.equip(Parts {
        authenticator,
        authorizer,
        admission,
        companions: Default::default(),
        handler: Arc::new(Nothing),
        documents,
    });
    Ok(None)
}

struct Nothing;

#[async_trait]
impl Handler for Nothing {
    async fn handle(&self, _: &Context, _: &Request) -> Option<Result<Answer, Status>> {
        None
    }
}

impl Documents for discovery::Discovery {
    fn handle(&self, request: &Request) -> Option<Answer> {
        Self::handle(self, request)
    }
}
