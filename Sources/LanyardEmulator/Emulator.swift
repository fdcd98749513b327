import FlyingFox
import FlyingSocks
import Foundation

/// A stand-in of the App Services client API, and of an OAuth 2.0 authorization server if the options have one, with a protected resource
/// and controls beside it.
///
/// It listens when `start` has returned. It runs on the cooperative thread pool, so a test in the same process must not block the pool's
/// threads.
public final class Emulator: Sendable {
    /// Why the emulator cannot start: the address is invalid or in use. A type of its own, because it has no status: no
    /// client is there yet.
    public struct StartError: Error, CustomStringConvertible {
        /// One sentence for the developer.
        public let description: String
    }

    /// The address that it listens on: `127.0.0.1:port`, `[::1]:port` or `unix:/path`.
    public let address: String
    /// The TCP port; 0 for a unix socket.
    public let port: UInt16
    /// The issuer of the OAuth side, as a client at `address` sees it; nil: there is none.
    public let issuer: String?
    private let state: ServiceState
    private let server: HTTPServer
    private let running: Task<Void, Never>
    /// Writes snapshots.
    private let saving: Task<Void, Never>

    private init(
        state: ServiceState, server: HTTPServer, running: Task<Void, Never>, address: Socket.Address?, hasOAuth: Bool
    ) {
        self.state = state
        self.server = server
        self.running = running
        saving = Task { await Emulator.save(state) }
        switch address {
        case .ip4(let host, let port):
            self.address = "\(host):\(port)"
            self.port = port
        case .ip6(let host, let port):
            self.address = "[\(host)]:\(port)"
            self.port = port
        case .unix(let path):
            self.address = "unix:\(path)"
            port = 0
        case nil:
            self.address = ""
            port = 0
        }
        issuer = hasOAuth ? "http://\(port == 0 ? "localhost" : self.address)/oauth" : nil
    }

    /// Binds and serves.
    ///
    /// - Throws: `StartError` if the address cannot be read or bound, or if the snapshot cannot be read.
    public static func start(_ options: EmulatorOptions = EmulatorOptions()) async throws -> Emulator {
        let state = ServiceState(options)
        do {
            try await state.loadSnapshot()
        } catch {
            throw StartError(description: "\(error)")
        }
        return try await start(state, at: options.listen)
    }

    /// Stops listening, closes every connection and writes the snapshot. The service's state is kept for `restart`.
    public func stop() async {
        await server.stop(timeout: 0)
        await running.value
        saving.cancel()
        await saving.value
    }

    /// After `stop`: starts the same service again at the same address, with its users, sessions and signing key.
    ///
    /// - Throws: `StartError` if the address cannot be bound again: another program has taken it since.
    public func restart() async throws -> Emulator { try await Self.start(state, at: address) }

    /// The statistics of sessions since the start or the last reset of the counts.
    public func statistics() async -> EmulatorStatistics { await state.statistics }

    /// All sessions in the order of their logins, including ended ones.
    public func sessions() async -> [EmulatorSession] { await state.sessionList() }

    /// The calls after the one with this number, in the order of their arrival. Calls of the protected resource are not recorded.
    public func journal(after number: Int = 0) async -> [EmulatorCall] { await state.journal.after(number) }

    /// Writes the snapshot of the options now. Nothing happens without one.
    ///
    /// - Throws: an error that describes why the file cannot be written.
    public func writeSnapshot() async throws { try await state.writeSnapshot() }

    /// Writes a snapshot within a second of a change, and one at the end.
    private static func save(_ state: ServiceState) async {
        guard await state.options.snapshotPath != nil else { return }
        var saved = await state.changeCount
        while true {
            let isCancelled = (try? await Task.sleep(for: .seconds(1))) == nil
            let count = await state.changeCount
            // A disk that is full may have room again. The next change tries once more.
            if count != saved, (try? await state.writeSnapshot()) != nil { saved = count }
            if isCancelled { return }
        }
    }

    private static func start(_ state: ServiceState, at listen: String) async throws -> Emulator {
        let server = HTTPServer(config: try configuration(listen), handler: ServiceHandler(state: state))
        let failed = StartErrorText()
        let running = Task {
            do {
                try await server.run()
            } catch {
                await failed.set("\(error)")
            }
        }
        // The run fails at once if the address is in use. Otherwise it listens.
        while await !server.isListening {
            if let failure = await failed.text {
                throw StartError(description: "cannot listen at \(listen): \(failure)")
            }
            try await Task.sleep(for: .milliseconds(1))
        }
        return Emulator(
            state: state, server: server, running: running, address: await server.listeningAddress,
            hasOAuth: await state.oauth != nil)
    }

    /// Bodies up to 64 KiB pass in one piece, longer ones as a stream. Handlers may take up to a day.
    private static func configuration(_ listen: String) throws -> HTTPServer.Configuration {
        if listen.hasPrefix("unix:") {
            let path = String(listen.dropFirst(5))
            unlink(path)
            return make(sockaddr_un.unix(path: path))
        }
        guard let colon = listen.lastIndex(of: ":"), let port = UInt16(listen[listen.index(after: colon)...]) else {
            throw StartError(description: "no address: \(listen)")
        }
        let host = listen[..<colon].trimmingCharacters(in: CharacterSet(charactersIn: "[]"))
        do {
            if host.contains(":") { return make(try sockaddr_in6.inet6(ip6: host, port: port)) }
            return make(try sockaddr_in.inet(ip4: host == "localhost" ? "127.0.0.1" : host, port: port))
        } catch {
            throw StartError(description: "no address: \(listen)")
        }
    }

    private static func pool(_ base: some AsyncSocketPool) -> some AsyncSocketPool { NoDelayPool(base: base) }

    private static func make(_ address: some SocketAddress) -> HTTPServer.Configuration {
        HTTPServer.Configuration(
            address: address, timeout: 86_400, sharedRequestBufferSize: 65_536, sharedRequestReplaySize: 65_536,
            pool: pool(HTTPServer.defaultPool()), logger: .disabled)
    }
}

/// The error that ended the server's run before it listened.
private actor StartErrorText {
    private(set) var text: String?
    func set(_ text: String) { self.text = text }
}
