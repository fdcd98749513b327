import LanyardConfiguration
import LanyardFoundations
import LanyardIdentity
import LanyardSettings

/// The contents of secret files, as `lanyard check` judges them by the rules of `run`: keys that sign assertions, logins, and static tokens
/// that end.
///
/// `run` starts with a file whose content cannot be used: its users are refused until the file changes. So a finding is a warning.
package enum SecretFileCheck {
    /// One for each finding, in the order of the configuration. Blocks as long as the disk does.
    package static func warnings(_ configuration: Configuration) -> [ConfiguredFileWarning] {
        let identities = configuration.identities.map { identity in
            (ConfiguredFileError.Owner.identity(identity.name), SigningKeyFile.of(identity))
        }
        let users = configuration.users.map { user in
            (ConfiguredFileError.Owner.user(user.name), SigningKeyFile.of(user))
        }
        let keys: [ConfiguredFileWarning] = (identities + users).compactMap { owner, file in
            guard let file, let finding = file.finding() else { return nil }
            let remedy = "logins with it are refused until the file is corrected"
            return ConfiguredFileWarning(owner, path: file.path, "\(file.path) \(finding); \(remedy)")
        }
        return keys + credentials(configuration) + staticTokens(configuration) + proxies(configuration)
    }

    /// Credentials for proxies without a user and a password. A file that cannot be read is reported with the configuration.
    private static func proxies(_ configuration: Configuration) -> [ConfiguredFileWarning] {
        configuration.routes.enumerated().compactMap { index, route in
            guard let path = route.upstream.proxy?.credentialsFile,
                case .unfit(let reason)? = ProxyCredentials.error(inFile: path)
            else { return nil }
            return ConfiguredFileWarning(
                .route(index), path: path, "\(path) \(reason); the route's requests get 502 until it does")
        }
    }

    /// Tokens of static identities that name their own end.
    private static func staticTokens(_ configuration: Configuration) -> [ConfiguredFileWarning] {
        configuration.identities.compactMap { identity in
            StaticTokenEnd.finding(identity).map {
                ConfiguredFileWarning(.identity(identity.name), path: $0.path, $0.text)
            }
        }
    }

    /// The files of logins that `run` would refuse before it sends them.
    private static func credentials(_ configuration: Configuration) -> [ConfiguredFileWarning] {
        configuration.users.compactMap { user in
            guard let file = CredentialFile.of(user), let finding = file.finding() else { return nil }
            return ConfiguredFileWarning(.user(user.name), path: file.path, finding)
        }
    }
}
