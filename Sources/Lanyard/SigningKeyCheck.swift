import LanyardConfiguration
import LanyardIdentity
import LanyardSettings

/// The keys that sign assertions, as `lanyard check` judges them.
///
/// `run` starts with a file that holds no such key: its users are refused until the file changes. So a finding is a warning.
package enum SigningKeyCheck {
    /// One for each key that cannot sign, in the order of the configuration. Blocks as long as the disk does.
    package static func warnings(_ configuration: Configuration) -> [ConfiguredFileWarning] {
        let identities = configuration.identities.map { identity in
            (ConfiguredFileError.Owner.identity(identity.name), SigningKeyFile.of(identity))
        }
        let users = configuration.users.map { user in
            (ConfiguredFileError.Owner.user(user.name), SigningKeyFile.of(user))
        }
        return (identities + users).compactMap { owner, file in
            guard let file, let finding = file.finding() else { return nil }
            let remedy = "logins with it are refused until the file is corrected"
            return ConfiguredFileWarning(owner, path: file.path, "\(file.path) \(finding); \(remedy)")
        }
    }
}
