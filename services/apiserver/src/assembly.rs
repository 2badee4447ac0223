//! What is built on top of objects, given to the engine.

use std::net::{IpAddr, UdpSocket};
use std::sync::Arc;

use trireme_service::tasks::Tasks;

use crate::config::Config;
use crate::pipeline::engine::Parts;
use crate::pipeline::{Documents, Engine, Objects, Reader};
use crate::rest::Connect;
use crate::subresources::{self, Subresources};
use crate::{admission, auth, discovery, duties, openapi};

/// Equips the engine and starts the duties. Answers what opens streams to Pods.
pub fn equip(engine: &Engine, config: &Arc<Config>, tasks: &Tasks) -> anyhow::Result<Option<Arc<dyn Connect>>> {
    let registry = &engine.kinds;
    let objects: Arc<dyn Objects> = Arc::new(engine.clone());
    let reader: Arc<dyn Reader> = Arc::new(engine.reader.clone());
    let judges = auth::build(config, &reader, registry)?;
    let chain = admission::Chain::new(&objects, &judges.authorizer, registry, &config.disable_admission_plugins)?;
    let advertise = config.advertise_address.unwrap_or_else(|| advertised(config.bind_address));
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
    };
    duties::start(&around, &allocator, tasks, &engine.health)?;
    Ok(Some(Arc::new(handler)))
}

/// The address that others reach this server at when no flag names it: the one it listens at, else the one that this
/// machine's way out begins at.
fn advertised(bound: IpAddr) -> IpAddr {
    if !bound.is_unspecified() && !bound.is_loopback() {
        return bound;
    }
    // Nothing is sent: connecting only chooses the way.
    let way_out = || {
        let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
        socket.connect("192.0.2.1:9").ok()?;
        Some(socket.local_addr().ok()?.ip())
    };
    way_out().unwrap_or(bound)
}
