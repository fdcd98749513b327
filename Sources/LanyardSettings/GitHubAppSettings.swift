extension IdentitySettings {
    /// An installation of a GitHub App, whose tokens live for an hour.
    package struct GitHubApp: Equatable, Sendable {
        /// What a permission of a token allows.
        package enum Access: String, Sendable, CaseIterable { case read, write, admin }

        /// The app's id, or its client id.
        package var appID: String
        /// Digits.
        package var installationID: String
        /// The app's RSA key in PEM; read at each call.
        package var keyFile: String
        /// The REST API, without a trailing slash.
        package var baseURL = "https://api.github.com"
        /// Names of repositories that a token is restricted to; empty: all of the installation.
        package var repositories: [String] = []
        /// Permissions that a token is restricted to, in order; empty: all of the installation.
        package var permissions: [(name: String, access: Access)] = []

        package init(appID: String, installationID: String, keyFile: String) {
            self.appID = appID
            self.installationID = installationID
            self.keyFile = keyFile
        }

        package static func == (left: Self, right: Self) -> Bool {
            left.appID == right.appID && left.installationID == right.installationID && left.keyFile == right.keyFile
                && left.baseURL == right.baseURL && left.repositories == right.repositories
                && left.permissions.elementsEqual(right.permissions) { $0 == $1 }
        }
    }
}
