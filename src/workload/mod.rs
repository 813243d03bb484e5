//! The objects that an agent runs as: Deployments, Service, RBAC, ConfigMaps. Pure.
