//! The allocator of every service.
//!
//! It stands here, not in each `main`, so that all services spend alike. mimalloc gives back what is freed, where glibc
//! keeps the most that each thread ever needed. It asks for no huge pages (`no_thp`): with them an idle service held
//! 10 MB for 2 MB of objects.

/// What `Box`, `Vec` and all others allocate with.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
