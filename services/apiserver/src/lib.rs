//! The API server: REST (actix-web) and gRPC (tonic) over one request pipeline.
