import LanyardSessionInterface
import LanyardSettings

/// One user with what the service needs to keep it logged in.
package struct ManagedUser: Sendable {
    /// Where the user's tokens come from.
    package enum Source: Sendable {
        /// Lanyard logs in and renews.
        case service(any IdentityService)
        /// The token is renewed elsewhere; Lanyard reads it.
        case feed(any TokenFeed)
    }

    /// As configured, or as the admin API added it.
    package var settings: UserSettings
    /// Where the user's tokens come from.
    package var source: Source
    /// Reports changes of the credential's file; nil: no file.
    package var credential: (any CredentialWatch)?
    /// Of the user's identity.
    package var refreshTokens: RefreshTokenSettings
    /// The user is not configured: the admin API added it.
    package var isAdded: Bool

    /// What decides whether a reload has to change the user.
    var origin: UserOrigin {
        let (source, isStatic): (AnyObject, Bool) =
            switch source {
            case .service(let service): (service, false)
            case .feed(let feed): (feed, true)
            }
        return UserOrigin(
            identity: storedIdentity, isStatic: isStatic, login: settings.login, isAdded: isAdded,
            refreshTokens: refreshTokens,
            source: ObjectIdentifier(source))
    }

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
        refreshTokens: RefreshTokenSettings = RefreshTokenSettings(), isAdded: Bool = false
    ) {
        self.settings = settings
        self.source = source
        self.credential = credential
        self.refreshTokens = refreshTokens
        self.isAdded = isAdded
    }
}

/// What a user was made of. Two that are equal need no change.
struct UserOrigin: Equatable, Sendable {
    var identity: StoredIdentity
    var isStatic: Bool
    var login: UserSettings.Login?
    var isAdded: Bool
    var refreshTokens: RefreshTokenSettings
    /// The object that the tokens come from.
    var source: ObjectIdentifier

    /// Both have their accounts at one service, so a session of one continues as the other's.
    func hasSameAccounts(as other: UserOrigin) -> Bool {
        !isStatic && !other.isStatic && identity == other.identity
    }
}

/// What the session path needs of a configuration.
package struct SessionConfiguration: Sendable {
    /// The configured users, in the order of the configuration.
    package var users: [ManagedUser]
    /// All configured identities.
    package var identities: [ConfiguredIdentity]
    /// What all users have in common.
    package var settings: SessionSettings

    package init(users: [ManagedUser], identities: [ConfiguredIdentity], settings: SessionSettings) {
        self.users = users
        self.identities = identities
        self.settings = settings
    }
}

/// A configured identity, for users that are added at run time.
package struct ConfiguredIdentity: Sendable {
    /// Who renews the tokens.
    package enum Kind: Sendable {
        /// Lanyard logs in and renews.
        case service(any IdentityService, RefreshTokenSettings)
        /// The tokens of configured users are renewed elsewhere; no user can be added.
        case staticToken
    }

    package var name: String
    /// Who renews the tokens.
    package var kind: Kind

    /// Whether Lanyard logs users in there.
    var hasLogins: Bool { if case .service = kind { true } else { false } }

    package init(_ name: String, _ kind: Kind) {
        self.name = name
        self.kind = kind
    }

    /// The identity as the store names it; nil for a static one, which is not stored.
    var storedIdentity: StoredIdentity? {
        if case .service(let service, _) = kind { StoredIdentity(name, service.fingerprint) } else { nil }
    }

    var isStatic: Bool { if case .staticToken = kind { true } else { false } }
}

extension ManagedUser {
    /// What token calls ask for; nil: nothing in particular.
    var tokenRequest: IdentityFingerprint? {
        if case .service(let service) = source { service.tokenRequest } else { nil }
    }
}
