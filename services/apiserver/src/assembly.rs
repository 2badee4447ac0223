//! What is built on top of objects, given to the engine.

use std::sync::Arc;

use trireme_service::tasks::Tasks;

use crate::config::Config;
use crate::pipeline::engine::Parts;
use crate::pipeline::{Documents, Engine, Objects, Reader};
use crate::rest::Connect;
use crate::subresources::{self, Subresources};
use crate::{admission, advertise, auth, discovery, duties, openapi};

/// Equips the engine and starts the duties. Answers what opens streams to Pods.
pub fn equip(engine: &Engine, config: &Arc<Config>, tasks: &Tasks) -> anyhow::Result<Option<Arc<dyn Connect>>> {
    let registry = &engine.kinds;
    let objects: Arc<dyn Objects> = Arc::new(engine.clone());
    let reader: Arc<dyn Reader> = Arc::new(engine.reader.clone());
    let judges = auth::build(config, &reader, registry)?;
    let chain = admission::Chain::new(&objects, &judges.authorizer, registry, config)?;
    let advertise = advertise::address(config)?;
    let address = format!("{}:{}", advertise, config.secure_port);
    let documents: Vec<Arc<dyn Documents>> = vec![
        Arc::new(discovery::Discovery::new(registry, &address)),
        Arc::new(subresources::OpenId::new(config, &address)),
        Arc::new(openapi::OpenApi::new(registry.clone())),
    ];
    let handler = Subresources::new(
        subresources::Parts {
            objects: objects.clone(),
            registry: registry.clone(),
            auth: judges.clone(),
            chain: chain.clone(),
        },
        config,
    )?;
    let allocator = duties::allocator(objects.clone(), registry, config)?;
    let companions = duties::companions(&allocator).into_iter();
    engine.equip(Parts {
        authenticator: judges.authenticator,
        authorizer: judges.authorizer,
        admission: chain,
        companions: companions.map(|((group, plural), hooks)| ((group.to_owned(), plural.to_owned()), hooks)).collect(),
        handler: Arc::new(handler.clone()),
        documents,
    });
    let around = duties::Surroundings {
        objects,
        registry: registry.clone(),
        config: config.clone(),
        advertise,
        port: config.secure_port,
        cache: engine.cache.clone(),
    };
    let ready = engine.clone();
    duties::start(&around, &allocator, tasks, &engine.health, move |duty| {
        if duty == duties::roles::CHECK {
            ready.roles_are_there();
        }
    })?;
    Ok(Some(Arc::new(handler)))
}
