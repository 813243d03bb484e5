//! Why an agent cannot run: each reason once, with the condition reason that people see.

/// Why no objects can be rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// No image is known for the agent's framework.
    #[error(
        "no runtime image for the framework {framework:?}: set spec.framework.image, or an image for it in the settings"
    )]
    FrameworkImageUnavailable {
        /// `spec.framework.type`.
        framework: String,
    },
    /// `spec.facades` has none of the known types.
    #[error("spec.facades names no facade that the pods could serve")]
    NoFacade,
    /// The registry is in a namespace whose objects the pods cannot read.
    #[error("the tool registry {name:?} is in namespace {namespace:?}; an agent can only use one of its own namespace")]
    ToolRegistryCrossNamespace {
        /// Name of the registry.
        name: String,
        /// Its namespace.
        namespace: String,
    },
    /// A tool handler's `auth` cannot be carried out.
    #[error("tool handler {handler:?}: {why}")]
    ToolAuthUnsupported {
        /// Name of the handler.
        handler: String,
        /// Why.
        why: &'static str,
    },
    /// A tool handler's configuration is contradictory.
    #[error("tool handler {handler:?}: {why}")]
    ToolInvalid {
        /// Name of the handler.
        handler: String,
        /// Why.
        why: String,
    },
    /// The AgentRuntime has no uid, so nothing can be owned by it.
    #[error("the AgentRuntime has no uid: it was not read from a cluster")]
    NotInCluster,
}

impl RenderError {
    /// The type of the condition that says so.
    pub fn condition(&self) -> &'static str {
        match self {
            Self::FrameworkImageUnavailable { .. } => "FrameworkReady",
            Self::ToolRegistryCrossNamespace { .. } => "ToolRegistryReady",
            Self::NoFacade | Self::ToolAuthUnsupported { .. } | Self::ToolInvalid { .. } | Self::NotInCluster => {
                "DeploymentReady"
            }
        }
    }

    /// The reason of that condition.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::FrameworkImageUnavailable { .. } => "FrameworkImageUnavailable",
            Self::ToolRegistryCrossNamespace { .. } => "ToolRegistryCrossNamespace",
            Self::ToolAuthUnsupported { .. } => "ToolAuthUnsupported",
            Self::NoFacade | Self::ToolInvalid { .. } | Self::NotInCluster => "DeploymentFailed",
        }
    }
}
