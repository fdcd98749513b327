/// One entry of `identities:`.
package struct IdentitySettings: Equatable, Sendable {
    package enum Kind: Equatable, Sendable {
        case appServices(AppServices)
        /// The file's content is the token; read again when it changes.
        case fixed(tokenFile: String)
    }

    package struct AppServices: Equatable, Sendable {
        package var appID: String
        /// An origin, no trailing slash.
        package var baseURL: String
        package var rotation = Rotation.none
        package init(appID: String, baseURL: String) {
            self.appID = appID
            self.baseURL = baseURL
        }
    }

    /// What a refresh does to the refresh token.
    package enum Rotation: String, Sendable, CaseIterable {
        case none, grace
        case oneUse = "one_use"
    }

    package enum Proxy: Equatable, Sendable { case none, environment, url(String) }

    package var name: String
    package var kind: Kind
    package var caFile: String?
    package var certificateFile: String?
    package var keyFile: String?
    package var proxy = Proxy.none

    package init(name: String, kind: Kind) {
        self.name = name
        self.kind = kind
    }
}
