import Glibc
import LanyardFoundations
import LanyardSettings

/// The places of listen addresses, by key. Whether an address can be bound is known only later, after the configuration has been
/// accepted.
package struct AddressPlaces: Equatable, Sendable {
    private var places: [String: ConfigurationPlace] = [:]

    package init() {}

    init(of tree: ConfigurationNode) {
        for list in ["listeners", "brokers"] {
            for (index, listener) in (tree[list]?.elements ?? []).enumerated() {
                places["\(list)[\(index)].address"] = listener["address"]?.place
            }
        }
        for section in ["health", "admin"] { places["\(section).address"] = tree[section]?["address"]?.place }
    }

    /// The error for an address that cannot be bound: place, key, address, reason and remedy in one line.
    ///
    /// - Parameters:
    ///   - key: as in a file: `listeners[0].address`.
    ///   - code: `errno` of the failed call. `EEXIST` means a unix path that is not a socket, nil means text that is not an address.
    package func bindError(binding address: ListenerSettings.Address, of key: String, code: CInt?) -> ConfigurationError
    {
        let place = places[key] ?? .commandLine
        let isDefault = place == .commandLine
        let (reason, remedy) = Self.explanation(for: address, code)
        return ConfigurationError(
            at: place, "\(key): \(address)\(isDefault ? ", the default," : "") \(reason)",
            remedy: isDefault ? "\(remedy) with \(Self.setting(key))" : remedy)
    }

    /// The key and the flag that change a default.
    private static func setting(_ key: String) -> String {
        key.hasPrefix("listeners") ? "\(key) or --listen" : "\(key) or --\(String(key.map { $0 == "." ? "-" : $0 }))"
    }

    /// The error for a socket that the service manager should have passed.
    ///
    /// - Parameters:
    ///   - key: as in a file: `listeners[0].address`.
    ///   - message: what is wrong with it.
    package func activationError(of key: String, _ message: String, remedy: String) -> ConfigurationError {
        ConfigurationError(at: places[key] ?? .commandLine, "\(key): \(message)", remedy: remedy)
    }

    private static func explanation(
        for address: ListenerSettings.Address, _ code: CInt?
    ) -> (reason: String, remedy: String) {
        switch (code, address) {
        case (EADDRINUSE, .tcp): ("is in use by another process", "stop it, or choose another port")
        case (EADDRINUSE, .unix): ("is in use by another process", "stop it, or choose another path")
        case (EACCES, .tcp(_, let port)), (EPERM, .tcp(_, let port)):
            (
                "may not be bound by this user (\(Errno.text(of: EACCES)))",
                port < 1024
                    ? "choose a port from 1024 on, or grant CAP_NET_BIND_SERVICE" : "choose another port"
            )
        case (EACCES, .unix), (EPERM, .unix), (EROFS, .unix):
            (
                "may not be bound by this user (\(Errno.text(of: code ?? EACCES)))",
                "let it write to that folder, or choose another path"
            )
        case (ENODEV, _):
            (
                "names a network interface that this machine does not have",
                "write one that it has, as ip link lists them"
            )
        case (EADDRNOTAVAIL, _): ("is not an address of this machine", "choose one that is")
        case (EAFNOSUPPORT, _): ("needs IPv6, which this machine does not have", "choose an IPv4 address")
        case (EEXIST, _): ("is taken by something that is not a socket", "remove it, or choose another path")
        case (ENOENT, _), (ENOTDIR, _): ("lies in a folder that does not exist", "make it, or choose another path")
        case (let code?, _): ("cannot be bound (\(Errno.text(of: code)))", "choose another address")
        case (nil, _): ("is not an address that can be bound", "choose another address")
        }
    }
}
