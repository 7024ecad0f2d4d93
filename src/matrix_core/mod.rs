//! Models of the arithmetic of AMD's matrix cores.
