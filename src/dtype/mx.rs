//! OCP microscaling (MX) blocks: 32 elements under one e8m0 scale.
