import Glibc

/// The admin socket, bound: where it was asked for, or in its default place if that can be had (architecture.md 4.2).
enum AdminBinding {
    enum Outcome {
        case off
        case bound(ListeningSocket)
        /// Nobody asked for a place, and the default one cannot be had: Lanyard runs without an admin API, and says so.
        case unavailable(ConfigurationError)
    }

    /// - Throws: a configured address that cannot be had: exit 69.
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

    /// Makes the folder if it is missing. Whoever could change another's folder could put a socket of their own there and be sent passwords.
    private static func prepare(_ folder: String) -> ConfigurationError? {
        let failure = Machine.withoutUmask { mkdir(folder, 0o700) == 0 ? 0 : errno }
        if failure != 0, failure != EEXIST {
            return error("\(folder), the default's folder, cannot be made (\(Errno.text(of: failure)))")
        }
        var status = stat()
        guard lstat(folder, &status) == 0, status.st_mode & S_IFMT == S_IFDIR else {
            return error("\(folder), the default's folder, is none")
        }
        guard status.st_uid == geteuid() || status.st_uid == 0, status.st_mode & 0o022 == 0 else {
            return error("\(folder), the default's folder, can be changed by other users")
        }
        return nil
    }

    private static func error(_ message: String) -> ConfigurationError {
        ConfigurationError(
            .warning, at: .commandLine, "admin.address: \(message)",
            remedy: "choose a place with admin.address or --admin-address, or write admin: off")
    }
}
