//! The scheduler: filter, score, reserve, bind.
