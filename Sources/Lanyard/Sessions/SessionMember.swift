/// One user with what the service needs to keep it logged in.
package struct ManagedUser: Sendable {
    package enum Source: Sendable {
        /// Lanyard logs in and renews.
        case service(any IdentityService)
        /// The token is renewed elsewhere; Lanyard reads it.
        case feed(any TokenFeed)
    }

    package var settings: UserSettings
    package var source: Source
    /// Reports changes of the credential's file; nil: no file.
    package var credential: (any CredentialWatch)?
    /// The rotation of the user's identity.
    package var rotation: RefreshTokenRotation
    /// The user is not configured: the admin API added it.
    package var isAdded: Bool

    /// The user's identity as the store names it.
    package var storedIdentity: StoredIdentity {
        if case .service(let service) = source {
            StoredIdentity(settings.identity, service.fingerprint)
        } else {
            StoredIdentity(settings.identity)
        }
    }

    package init(
        _ settings: UserSettings, source: Source, credential: (any CredentialWatch)? = nil,
        rotation: RefreshTokenRotation = .none, isAdded: Bool = false
    ) {
        self.settings = settings
        self.source = source
        self.credential = credential
        self.rotation = rotation
        self.isAdded = isAdded
    }
}
