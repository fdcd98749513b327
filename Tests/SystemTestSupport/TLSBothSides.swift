import TestSupport

/// The built program with TLS on both sides, for a client and an upstream without it.
///
/// Relays of the tests encrypt for them. Gates between the relays and the program make faults of the network.
final class TLSBothSides: Sendable {
    private static let authority = TestAuthority("Both sides")

    let lanyard: LanyardProcess
    /// Where clients connect, without TLS.
    let endpoint: RawEndpoint
    /// Between the client's relay and the listener, and between the program and the upstream's relay; nil: direct.
    let gates: (listener: FaultGate, upstream: FaultGate)?
    private let relays: [TLSRelay]
    private let folder: TemporaryFolder

    /// - Parameters:
    ///   - upstream: speaks no TLS.
    ///   - route: further keys of the route.
    ///   - rest: further sections.
    static func start(
        before upstream: RawEndpoint, gated: Bool = false, route: String = "", rest: String = ""
    ) async throws -> TLSBothSides {
        let folder = try TemporaryFolder()
        let issued = authority.issue("DNS:localhost")
        let (certificate, key) = (
            try folder.write("cert.pem", issued.certificate), try folder.write("key.pem", issued.key)
        )
        let trust = "tls: {ca_file: \(try folder.write("ca.pem", authority.pem))}"
        let server = try TLSRelay(.server(issued), before: upstream)
        let upstreamGate = try gated ? FaultGate(before: server.endpoint) : nil
        let port = (upstreamGate?.endpoint ?? server.endpoint).port
        let keys = [trust, route].filter { !$0.isEmpty }.joined(separator: ", ")
        let lanyard = try await LanyardProcess.start(
            "routes: [{name: all, upstream: \"https://localhost:\(port)\", \(keys)}]\n" + rest,
            token: "both-sides-token",
            listener: "address: \"127.0.0.1:0\", tls: {certificate_file: \(certificate), key_file: \(key)}")
        try await lanyard.untilReady()
        let listenerGate = try gated ? FaultGate(before: lanyard.data) : nil
        let client = try TLSRelay(.client, before: listenerGate?.endpoint ?? lanyard.data)
        let gates = listenerGate.flatMap { listener in upstreamGate.map { (listener, $0) } }
        return TLSBothSides(lanyard, client.endpoint, gates, [server, client], folder)
    }

    private init(
        _ lanyard: LanyardProcess, _ endpoint: RawEndpoint, _ gates: (FaultGate, FaultGate)?, _ relays: [TLSRelay],
        _ folder: TemporaryFolder
    ) {
        (self.lanyard, self.endpoint, self.relays, self.folder) = (lanyard, endpoint, relays, folder)
        self.gates = gates.map { (listener: $0.0, upstream: $0.1) }
    }

    /// One request on a connection of its own.
    func get(_ path: String) async throws -> RawMessage {
        let (endpoint, host) = (endpoint, "\(lanyard.data)")
        let client = try RawClient(endpoint)
        defer { client.close() }
        return try client.exchange("GET", path, host: host)
    }
}
