import Glibc

/// Binds the admin socket at the configured address, or at the default one if possible (architecture.md 4.2).
enum AdminBinding {
    enum Outcome {
        case off
        case bound(ListeningSocket)
        /// No address is configured and the default one cannot be bound. Lanyard runs without an admin API and logs a warning.
        case unavailable(ConfigurationError)
    }

    /// - Throws: a configured address cannot be bound: exit 69.
    static func bind(_ settings: AdminSettings?, _ places: AddressPlaces) throws(ConfigurationError) -> Outcome {
        guard let settings else { return .off }
        if let address = settings.address {
            return .bound(try Bindings.bound(ListenerSettings(address: address), "admin.address", places))
        }
        guard let folder = settings.folder else {
            return .unavailable(
                error("has no default: there is neither RUNTIME_DIRECTORY nor XDG_RUNTIME_DIR"))
        }
        if let error = prepare(folder) { return .unavailable(error) }
        do throws(ConfigurationError) {
            let socket = ListenerSettings(address: .unix(path: folder + "/admin.sock"))
            return .bound(try Bindings.bound(socket, "admin.address", places))
        } catch {
            return .unavailable(error)
        }
    }

    /// Creates the folder if it is missing, and checks its owner and mode. Another Unix user that can change it could put a socket
    /// there and receive passwords.
    private static func prepare(_ folder: String) -> ConfigurationError? {
        let failure = Machine.withoutUmask { mkdir(folder, 0o700) == 0 ? 0 : errno }
        if failure != 0, failure != EEXIST {
            return error("\(folder), the folder of the default, cannot be created (\(Errno.text(of: failure)))")
        }
        var status = stat()
        guard lstat(folder, &status) == 0, status.st_mode & S_IFMT == S_IFDIR else {
            return error("\(folder), the folder of the default, is not a folder")
        }
        guard status.st_uid == geteuid() || status.st_uid == 0, status.st_mode & 0o022 == 0 else {
            return error("\(folder), the folder of the default, can be changed by other Unix users")
        }
        return nil
    }

    private static func error(_ message: String) -> ConfigurationError {
        ConfigurationError(
            .warning, at: .commandLine, "admin.address: \(message)",
            remedy: "choose an address with admin.address or --admin-address, or write admin: off")
    }
}
