import Glibc
import LanyardConfiguration
import LanyardSettings
import Testing

@Suite struct AddressPlacesTests {
    @Test("a default that cannot be bound is named as one, with the ways to change it")
    func defaults() throws {
        let loaded = Configuration.load(
            arguments: ["--upstream", "http://127.0.0.1:9", "--token-file", "/nonexistent"], environment: [:])
        let configuration = try #require(loaded.configuration)
        let data = loaded.addresses.bindError(
            binding: configuration.listeners[0].address, of: "listeners[0].address", code: EADDRINUSE)
        #expect(
            "\(data)"
                == "command line: listeners[0].address: 127.0.0.1:7400, the default, is in use by another process; "
                + "stop it, or choose another port with listeners[0].address or --listen")
        let health = loaded.addresses.bindError(
            binding: try #require(configuration.health).address, of: "health.address", code: EADDRINUSE)
        #expect(
            "\(health)"
                == "command line: health.address: 127.0.0.1:7401, the default, is in use by another process; "
                + "stop it, or choose another port with health.address or --health-address")
    }

    @Test(
        "each failure of the system has its reason and its remedy",
        arguments: [
            (EACCES, "127.0.0.1:5000 may not be bound by this user (Permission denied); choose another port"),
            (EAFNOSUPPORT, "127.0.0.1:5000 needs IPv6, which this machine does not have; choose an IPv4 address"),
            (EMFILE, "127.0.0.1:5000 cannot be bound (Too many open files); choose another address"),
            (nil, "127.0.0.1:5000 is not an address that can be bound; choose another address"),
        ] as [(CInt?, String)])
    func reasons(_ code: CInt?, _ words: String) throws {
        let loaded = Configuration.load(
            arguments: [
                "--listen", "127.0.0.1:5000", "--upstream", "http://127.0.0.1:9", "--token-file", "/nonexistent",
            ],
            environment: [:])
        let address = try #require(loaded.configuration).listeners[0].address
        let bindError = loaded.addresses.bindError(binding: address, of: "listeners[0].address", code: code)
        #expect("\(bindError)" == "--listen: listeners[0].address: \(words)")
    }
}
