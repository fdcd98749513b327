import Glibc
import LanyardAdmin
import LanyardConfiguration
import LanyardFoundations
import LanyardRequestPath
import LanyardSettings

/// All listening sockets, bound as the last step before the first thread (architecture-control.md 7.8). The owner of this value closes
/// them: nothing else holds them.
struct Bindings: ~Copyable {
    /// In the order of the configuration's `listeners` and `brokers`.
    let data: [ListeningSocket]
    /// Of each of these in the log.
    private let names: [String]
    let health: ListeningSocket?
    let admin: ListeningSocket?
    /// Why there is no admin API although it is not turned off.
    let adminError: ConfigurationError?

    /// - Throws: the first address that cannot be bound, with its place and remedy: exit 69. Sockets bound before it are closed.
    init(
        _ configuration: Configuration, activated: ActivatedSockets, _ places: AddressPlaces
    ) throws(ConfigurationError) {
        var data: [ListeningSocket] = []
        for (index, settings) in configuration.listeners.enumerated() {
            data.append(try Self.bound(settings, "\(settings.owner(at: index)).address", activated, places))
        }
        // All properties are set at once: a noncopyable value cannot be partly initialised when an error is thrown.
        let health = try configuration.health.map { settings throws(ConfigurationError) in
            try Self.bound(ListenerSettings(address: settings.address), "health.address", activated, places)
        }
        let names = configuration.listeners.map { $0.broker == nil ? "data" : "broker" }
        switch try AdminBinding.bind(configuration.admin, activated, places) {
        case .off: (self.data, self.names, self.health, admin, adminError) = (data, names, health, nil, nil)
        case .bound(let socket):
            (self.data, self.names, self.health, admin, adminError) = (data, names, health, socket, nil)
        case .unavailable(let bindError):
            (self.data, self.names, self.health, admin, adminError) = (data, names, health, nil, bindError)
        }
    }

    /// All bound addresses with their names in the log.
    var listeners: [ProgramInfo.Listener] {
        let data = zip(names, data).map { ($0, $1.address) }
        let others = [("health", health?.address), ("admin", admin?.address)]
        return (data + others.compactMap { name, address in address.map { (name, $0) } }).map {
            ProgramInfo.Listener(name: $0.0, address: $0.1.description)
        }
    }

    static func bound(
        _ settings: ListenerSettings, _ key: String, _ activated: ActivatedSockets, _ places: AddressPlaces
    ) throws(ConfigurationError) -> ListeningSocket {
        if case .activated(let name) = settings.address { return try activated.take(name, settings, key, places) }
        do throws(SystemError) {
            return try ListeningSocket(settings)
        } catch {
            let code: CInt? = if case .system(let code) = error.kind { code } else { nil }
            throw places.bindError(binding: settings.address, of: key, code: code)
        }
    }
}

/// Binds the admin socket at the configured address, or at the default one if possible (architecture-control.md 4.2).
enum AdminBinding {
    enum Outcome {
        case off
        case bound(ListeningSocket)
        /// No address is configured and the default one cannot be bound. Lanyard runs without an admin API and logs a warning.
        case unavailable(ConfigurationError)
    }

    /// - Throws: a configured address cannot be bound: exit 69.
    static func bind(
        _ settings: AdminSettings?, _ activated: ActivatedSockets, _ places: AddressPlaces
    ) throws(ConfigurationError) -> Outcome {
        guard let settings else { return .off }
        if let address = settings.address {
            return .bound(try Bindings.bound(ListenerSettings(address: address), "admin.address", activated, places))
        }
        guard let folder = settings.folder else {
            return .unavailable(
                error("has no default: there is neither RUNTIME_DIRECTORY nor XDG_RUNTIME_DIR"))
        }
        if let error = prepare(folder) { return .unavailable(error) }
        do throws(ConfigurationError) {
            let socket = ListenerSettings(address: .unix(path: folder + "/admin.sock"))
            return .bound(try Bindings.bound(socket, "admin.address", activated, places))
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
        return check(folder)
    }

    /// - Parameter isOfOwner: the owner of the folder is taken for the user of Lanyard.
    private static func check(_ folder: String, isOfOwner: Bool = false) -> ConfigurationError? {
        var status = stat()
        guard lstat(folder, &status) == 0, status.st_mode & S_IFMT == S_IFDIR else {
            return error("\(folder), the folder of the default, is not a folder")
        }
        guard isOfOwner || status.st_uid == geteuid() || status.st_uid == 0, status.st_mode & 0o022 == 0 else {
            return error("\(folder), the folder of the default, can be changed by other Unix users")
        }
        return nil
    }

    /// What `bind` would report, as far as that is the same for a process that runs beside this one. Makes nothing.
    ///
    /// A default without a folder is no finding: a service has another environment than `lanyard check`.
    static func inspect(_ settings: AdminSettings?, _ places: AddressPlaces) -> ConfigurationError? {
        guard let settings else { return nil }
        if let address = settings.address {
            return BindingCheck.error(ListenerSettings(address: address), "admin.address", places)
        }
        guard let folder = settings.folder else { return nil }
        guard access(folder, F_OK) == 0 else {
            let parent = folder.split(separator: "/").dropLast().joined(separator: "/")
            guard faccessat(AT_FDCWD, "/" + parent, W_OK | X_OK, AT_EACCESS) != 0 else { return nil }
            return error("\(folder), the folder of the default, cannot be created (\(Errno.text(of: errno)))")
        }
        // Root may check the configuration of a service that runs as another user.
        if let error = check(folder, isOfOwner: geteuid() == 0) { return error }
        let socket = ListenerSettings(address: .unix(path: folder + "/admin.sock"))
        guard var error = BindingCheck.error(socket, "admin.address", places) else { return nil }
        error.severity = .warning
        return error
    }

    private static func error(_ message: String) -> ConfigurationError {
        ConfigurationError(
            .warning, at: .commandLine, "admin.address: \(message)",
            remedy: "choose an address with admin.address or --admin-address, or write admin: off")
    }
}

/// What binding the addresses of a configuration would find, for `lanyard check`. It uses the rules of `Bindings` and binds nothing.
package enum BindingCheck {
    /// Errors, and warnings of what another Unix user, or a service manager at the start, may not meet.
    package static func findings(_ loaded: LoadedConfiguration) -> [ConfigurationError] {
        guard let configuration = loaded.configuration else { return [] }
        let data = configuration.listeners.enumerated().map {
            error($1, "\($1.owner(at: $0)).address", loaded.addresses)
        }
        let health = configuration.health.flatMap {
            error(ListenerSettings(address: $0.address), "health.address", loaded.addresses)
        }
        return (data + [health, AdminBinding.inspect(configuration.admin, loaded.addresses)]).compactMap(\.self)
    }

    static func error(_ settings: ListenerSettings, _ key: String, _ places: AddressPlaces) -> ConfigurationError? {
        do throws(SystemError) {
            try ListeningSocket.inspect(settings)
            return nil
        } catch {
            let code: CInt? = if case .system(let code) = error.kind { code } else { nil }
            var found = places.bindError(binding: settings.address, of: key, code: code)
            switch code {
            case EACCES, EPERM, EROFS: found.severity = .warning
            // Empty after each boot: who starts Lanyard makes its folder there (RuntimeDirectory=).
            case ENOENT: if "\(settings.address)".hasPrefix("unix:/run/") { found.severity = .warning }
            default: break
            }
            return found
        }
    }
}
