import Foundation
import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSettings
@testable import LanyardVault

/// The files that keys and passphrases are read from.
@Suite struct StoreSecretTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func read(_ bytes: [UInt8], isKey: Bool = true) throws -> Secret {
        let path = folder.file("secret")
        try bytes.withUnsafeBytes { try Data($0).write(to: URL(filePath: path)) }
        return try StoreSecret.read(isKey ? .key(path) : .passphrase(path)).secret
    }

    private static let text = [UInt8](repeating: 0x61, count: 32)

    @Test("a key's bytes are taken as they are; a final newline is cut only behind printable ASCII")
    func newline() throws {
        #expect(try read(Self.text) == StoreSamples.secret(Self.text))
        #expect(try read(Self.text + [10]) == StoreSamples.secret(Self.text))
        #expect(try read(Self.text + [10, 10]) == StoreSamples.secret(Self.text + [10, 10]))
        #expect(try read(Self.text + [13, 10]) == StoreSamples.secret(Self.text + [13, 10]))
        #expect(try read([0x80] + Self.text + [10]) == StoreSamples.secret([0x80] + Self.text + [10]))
        #expect(try read([0] + Self.text) == StoreSamples.secret([0] + Self.text))
    }

    @Test("31 bytes, or 31 characters and a newline, are no key; random bytes with a newline among them are")
    func length() throws {
        #expect(throws: StoreError.self) { try read([UInt8](repeating: 0x61, count: 31)) }
        #expect(throws: StoreError.self) { try read([UInt8](repeating: 0x61, count: 31) + [10]) }
        #expect(try read([UInt8](repeating: 0xff, count: 31) + [10]).count == 32)
    }

    @Test("a passphrase may be short, and its line's end is none of it")
    func passphrase() throws {
        #expect(try read(Array("correct horse\n".utf8), isKey: false) == StoreSamples.secret("correct horse"))
        #expect(throws: StoreError.self) { try read([10], isKey: false) }
    }

    @Test("what cannot be read is told with path and remedy, and no byte of it")
    func faults() throws {
        let path = folder.file("gone")
        do throws(StoreError) {
            _ = try StoreSecret.read(.key(path))
            Issue.record("a missing key was read")
        } catch {
            #expect(error.kind == .unfit)
            #expect(
                error.message
                    == "the store's key cannot be used: \(path) does not exist; put the key there")
        }
    }
}
