import CLinux
import Glibc
import LanyardConfiguration
import LanyardFoundations
import LanyardRequestPath
import LanyardSettings
import Logging

/// The listening sockets that the service manager has passed (sd_listen_fds(3)), by name. It closes those that are not taken.
///
/// The manager keeps each socket open. So the kernel queues connections while one Lanyard replaces another, and none is refused.
final class ActivatedSockets {
    /// The number of the first descriptor that is passed.
    private static let firstDescriptor: CInt = 3
    /// The name of a socket to which the manager has given none.
    private static let unnamed = "unknown"

    private var descriptors: [(name: String, raw: CInt)] = []

    /// Takes what was passed to this process and removes the variables. Call only while the process has one thread.
    init() {
        let variables = ProcessEnvironment.all()
        for name in ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"] { unsetenv(name) }
        guard variables["LISTEN_PID"] == "\(getpid())", let count = variables["LISTEN_FDS"].flatMap({ CInt($0) }),
            (1...1024).contains(count)
        else { return }
        let names = (variables["LISTEN_FDNAMES"] ?? "").split(separator: ":", omittingEmptySubsequences: false)
        for index in 0..<Int(count) {
            let raw = Self.firstDescriptor + CInt(index)
            // A number that is not open has no owner, and the next file would take it.
            guard fcntl(raw, F_SETFD, FD_CLOEXEC) == 0 else { continue }
            let name = index < names.count ? String(names[index]) : ""
            descriptors.append((name.isEmpty ? Self.unnamed : name, raw))
        }
    }

    deinit { for descriptor in descriptors { close(descriptor.raw) } }

    /// The names of the sockets that are not taken.
    var names: [String] { descriptors.map(\.name) }

    /// The rules of sockets by their addresses. Ask before the first one is taken.
    var rules: ActivationRules {
        var addresses: [String: SocketAddress] = [:]
        for (name, raw) in descriptors where addresses[name] == nil {
            addresses[name] = SocketAddress { getsockname(raw, $0, $1) == 0 }
        }
        return ActivationRules(addresses: addresses)
    }

    // MARK: Sockets

    /// The socket of this name.
    ///
    /// - Throws: there is none, there are several, or it does not listen: exit 69.
    func take(
        _ name: String, _ settings: ListenerSettings, _ key: String, _ places: AddressPlaces
    ) throws(ConfigurationError) -> ListeningSocket {
        let matching = descriptors.indices.filter { descriptors[$0].name == name }
        guard let place = matching.first else {
            let passed = names.isEmpty ? "" : " (it passed \(names.joined(separator: ", ")))"
            throw places.activationError(
                of: key, "the service manager passed no socket of the name \(name)\(passed)",
                remedy: "write FileDescriptorName=\(name) into the socket unit and start it, or choose another address")
        }
        guard matching.count == 1 else {
            throw places.activationError(
                of: key, "the service manager passed \(matching.count) sockets of the name \(name)",
                remedy: "use one socket unit for each, with a FileDescriptorName= of its own")
        }
        let socket = OwnedDescriptor(taking: descriptors.remove(at: place).raw)
        do throws(SystemError) {
            return try ListeningSocket(activated: socket, settings)
        } catch {
            throw places.activationError(
                of: key, "the socket \(name) of the service manager is not a listening stream socket",
                remedy: "use ListenStream= and Accept=no in the socket unit")
        }
    }

    /// Logs and closes the sockets that no address names.
    func closeRest(_ log: Logger) {
        guard !names.isEmpty else { return }
        log.warning(
            "sockets of the service manager are not used: no address names them",
            metadata: ["event": "start.sockets_unused", "names": .string(names.joined(separator: ", "))])
        for descriptor in descriptors { close(descriptor.raw) }
        descriptors = []
    }
}

/// The rules that a configuration cannot check by itself, because the address of an activated socket is not in it (security.md T1).
///
/// The start and each reload ask.
struct ActivationRules: Sendable {
    /// By name.
    let addresses: [String: SocketAddress]

    /// Checks listeners and admin.
    ///
    /// - Throws: the first one that is broken: exit 78.
    func check(_ configuration: Configuration, _ places: AddressPlaces) throws(ConfigurationError) {
        for (index, listener) in configuration.listeners.enumerated() {
            guard case .activated(let name) = listener.address, let address = addresses[name] else { continue }
            try check(listener, at: address, places, "\(listener.owner(at: index)).address")
        }
        guard case .activated(let name)? = configuration.admin?.address, let address = addresses[name],
            address.family != AF_UNIX
        else { return }
        guard address.isLoopback, configuration.admin?.tokenFile != nil else {
            throw places.activationError(
                of: "admin.address", "systemd:\(name) is \(address): other users or machines could call it",
                remedy: "give it a unix socket, or a loopback address and admin.token_file")
        }
    }

    private func check(
        _ listener: ListenerSettings, at address: SocketAddress, _ places: AddressPlaces, _ key: String
    ) throws(ConfigurationError) {
        guard address.family != AF_UNIX else { return }
        let checksCallers =
            listener.capabilityFile != nil || listener.tls?.clientCAFile != nil
            || listener.broker != nil && listener.tls != nil
        if !address.isLoopback, !checksCallers, !listener.isUnsafe {
            throw places.activationError(
                of: key, "other machines can reach \(listener.address), which is \(address), and would act as the user",
                remedy:
                    "let its unit listen at 127.0.0.1, add capability_file, or add unsafe: true if something else prevents that"
            )
        }
        if address.isWildcard, listener.allowedHosts == nil {
            throw places.activationError(
                of: key, "\(listener.address) is every address, so there is no default for allowed_hosts",
                remedy: "add allowed_hosts, such as [\"api.internal:\(address.port)\"]")
        }
        if listener.peers != nil {
            throw places.activationError(
                of: key, "\(listener.address) is \(address) and not a unix socket, so peers restricts no client",
                remedy: "give it a unix socket, or use capability_file in place of peers")
        }
    }
}
