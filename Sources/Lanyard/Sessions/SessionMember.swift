/// One user with what the home needs to keep it logged in.
package struct SessionMember: Sendable {
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

    package init(_ settings: UserSettings, source: Source, credential: (any CredentialWatch)? = nil) {
        self.settings = settings
        self.source = source
        self.credential = credential
    }
}
