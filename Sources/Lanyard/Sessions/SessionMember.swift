/// One user with what the home needs to keep it logged in.
package struct ManagedUser: Sendable {
    package enum Source: Sendable {
        /// Lanyard logs in and renews.
        case service(any IdentityService)
        /// Somebody else renews; Lanyard reads.
        case feed(any TokenFeed)
    }

    package var settings: UserSettings
    package var source: Source
    /// Tells when the credential's file has changed; nil: no file.
    package var credential: (any CredentialWatch)?
    /// The identity's.
    package var rotation: RefreshTokenRotation
    /// No configuration names the user: the admin API made it.
    package var isAdded: Bool

    /// What the store knows the user's identity by.
    package var home: StoredIdentity {
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
