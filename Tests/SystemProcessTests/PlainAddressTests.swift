import TestSupport
import Testing

@testable import SystemTestSupport

/// Plain http carries tokens only to loopback addresses, whatever a name resolves to, unless the configuration permits more.
@Suite(
    .enabled(if: MountNamespace.isPossible, "needs root and namespaces of its own"))
struct PlainAddressTests {
    private static let elsewhere = "\(PrivateNetwork.address) localhost"

    private func lanyard(_ network: PrivateNetwork, _ yaml: String, token: String? = nil) async throws -> LanyardProcess
    {
        try await .start(
            yaml, token: token, listener: "address: \"unix:\(network.folder.file("data.sock"))\"",
            launcher: network.launcher)
    }

    private func upstream(
        _ network: PrivateNetwork, _ keys: String = "", host: String = "service.test"
    ) async throws -> LanyardProcess {
        try await lanyard(
            network, "routes: [{name: all, upstream: \"http://\(host):\(PrivateNetwork.port)\"\(keys)}]\n",
            token: "plain-token")
    }

    @Test(
        "an upstream named localhost is a loopback address, whatever the hosts file says, also with unsafe_plain",
        arguments: [[elsewhere], [elsewhere, "127.0.0.1 localhost"], []], ["", ", unsafe_plain: true"])
    func upstreamElsewhere(_ hosts: [String], _ keys: String) async throws {
        let network = try PrivateNetwork(hosts: hosts)
        let lanyard = try await upstream(network, keys, host: "localhost")
        for _ in 0..<3 { #expect(try await lanyard.get("/").status == 200) }
        #expect(Set(try network.visits().map(\.address)) == ["127.0.0.1"])
        #expect(try await lanyard.process.terminate() == .code(143))
    }

    @Test("with unsafe_plain any address is dialled")
    func upstreamPermitted() async throws {
        let network = try PrivateNetwork(hosts: ["\(PrivateNetwork.address) service.test"])
        let lanyard = try await upstream(network, ", unsafe_plain: true")
        #expect(try await lanyard.get("/").status == 200)
        #expect(Set(try network.visits().map(\.address)) == [PrivateNetwork.address])
    }

    @Test(
        "a name that resolves to a link-local address is not dialled unless the route allows it",
        arguments: [false, true])
    func metadataService(isAllowed: Bool) async throws {
        let network = try PrivateNetwork(hosts: ["\(PrivateNetwork.linkLocalAddress) service.test"])
        let lanyard = try await upstream(network, ", unsafe_plain: true, allow_link_local: \(isAllowed)")
        let response = try await lanyard.get("/")
        #expect(response.status == (isAllowed ? 200 : 502))
        #expect(Set(try network.visits().map(\.address)) == (isAllowed ? [PrivateNetwork.linkLocalAddress] : []))
        guard !isAllowed else { return }
        #expect(response["Proxy-Status"]?.contains("destination_ip_prohibited") == true, "\(response.headText)")
        #expect(try response.json["detail"].string?.contains("allow_link_local") == true, "\(response.bodyText)")
    }

    struct Place: Sendable, CustomTestStringConvertible {
        let name: String
        var base = "http://127.0.0.1:\(PrivateNetwork.port)"
        var location = ""
        var proxy = "none"
        var hosts = ["127.0.0.1 localhost", "\(PrivateNetwork.address) service.test"]

        var testDescription: String { name }

        static let all = [
            Place(name: "localhost is another address", base: "http://localhost:9000", hosts: [elsewhere]),
            Place(name: "location names another address", location: "http://\(PrivateNetwork.address):9000"),
            Place(name: "location names a host elsewhere", location: "http://service.test:9000"),
            Place(name: "a proxy elsewhere", proxy: "http://service.test:9000"),
        ]
    }

    @Test(
        "no credential is sent over plain http to what is not loopback where base_url is loopback", arguments: Place.all
    )
    func identity(_ place: Place) async throws {
        let network = try PrivateNetwork(hosts: place.hosts, location: place.location)
        try network.folder.write("password", "correct-horse\n")
        let lanyard = try await lanyard(
            network,
            """
            identities:
              demo: {app_services: {app_id: demo-abcde, base_url: "\(place.base)"}, proxy: "\(place.proxy)"}
            users:
              alice:
                identity: demo
                login: {email_password: {email: a@example.com, password_file: \(network.folder.file("password"))}}
            routes: [{name: all, upstream: "http://127.0.0.1:\(PrivateNetwork.port)"}]

            """)
        let line = try await lanyard.process.event("session.login.failed")
        #expect(try network.visits().filter { $0.address != "127.0.0.1" } == [])
        // libcurl itself takes localhost for 127.0.0.1: that login fails only because this server grants nothing.
        if place.base.contains("127.0.0.1") {
            let words = line["error"].string ?? ""
            #expect(words.contains("loopback") && words.contains("base_url"), "\(words)")
            #expect(line["level"].string == "error", "\(line)")
        }
        #expect(try await lanyard.process.terminate() == .code(143))
    }
}
