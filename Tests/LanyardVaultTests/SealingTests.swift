import COpenSSL
import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardVault

/// The seal of the store's file.
@Suite struct SealingTests {
    private static let key = StoreSecret(.key, StoreSamples.secret(100..<132))
    private static let passphrase = StoreSecret(.passphrase, StoreSamples.secret("correct horse"))
    /// Salts and nonces that count up from 0.
    private static let counting: AESSealing.Entropy = { room in
        for index in room.indices { room[index] = UInt8(index) }
        return true
    }

    private static func error(_ sealing: some Sealing, _ file: [UInt8]) -> SealingError? {
        do throws(SealingError) {
            _ = try file.withUnsafeBytes { bytes in
                Result { () throws(SealingError) in try sealing.open(bytes) }
            }.get()
            return nil
        } catch {
            return error
        }
    }

    private static func seal(_ sealing: some Sealing, _ text: [UInt8]) throws -> [UInt8] {
        try text.withUnsafeBytes { try sealing.seal($0) }
    }

    @Test("HKDF-SHA256 is RFC 5869's")
    func hkdf() throws {
        let key = try SealKeys.derive(
            from: StoreSamples.secret([UInt8](repeating: 0x0b, count: 22)), salt: Array(0...12),
            label: Array(0xf0...0xf9))
        let expected = ["3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf"]
        #expect(key == StoreSamples.secret(StoreSamples.bytes(expected)))
    }

    @Test("scrypt is RFC 7914's")
    func scrypt() throws {
        let key = try SealKeys.stretch(
            StoreSamples.secret("pleaseletmein"), .init(salt: Array("SodiumChloride".utf8), costLog2: 14))
        let expected = ["7023bdcb3afd7348461c06cd81fd38ebfda8fbba904f8e3ea9b543f6545da1f2"]
        #expect(key == StoreSamples.secret(StoreSamples.bytes(expected)))
    }

    @Test("a file sealed with given salts is the one that another program makes from the same, and is opened")
    func vectors() throws {
        for (secret, file) in [
            (Self.key, StoreVectors.keySealed), (Self.passphrase, StoreVectors.passphraseSealed),
        ] {
            let sealing = AESSealing(secret, entropy: Self.counting)
            #expect(try Self.seal(sealing, StoreVectors.text) == file)
            let text = try file.withUnsafeBytes { try AESSealing(secret).open($0) }
            #expect(text == StoreSamples.secret(StoreVectors.text))
        }
    }

    @Test("a store of text version 4 that another program made is read, and written byte by byte as it was")
    func version4() throws {
        let sealing = AESSealing(Self.key, entropy: Self.counting)
        #expect(try Self.seal(sealing, StoreVectors.version4Text) == StoreVectors.version4Sealed)
        let text = try StoreVectors.version4Sealed.withUnsafeBytes { try AESSealing(Self.key).open($0) }
        #expect(try text.withBytes { try StoreText.read($0) } == StoreSamples.version4)
        #expect(try StoreText.write(StoreSamples.version4).withBytes { Array($0) } == StoreVectors.version4Text)
    }

    @Test("every single flipped bit of a file is refused")
    func flippedBits() throws {
        let sealing = AESSealing(Self.key)
        // What another test has left on this thread is not this one's.
        ERR_clear_error()
        for place in StoreVectors.keySealed.indices {
            for bit in 0..<8 {
                var file = StoreVectors.keySealed
                file[place] ^= 1 << bit
                let error = Self.error(sealing, file)
                #expect(error != nil, "bit \(bit) of byte \(place)")
                // What OpenSSL leaves in its queue would be blamed on the thread's next call.
                if ERR_peek_error() != 0 { Issue.record("byte \(place) left an entry in the error queue") }
            }
        }
    }

    @Test("every flipped bit of a passphrase's header is refused, and none costs more than a passphrase may")
    func flippedHeader() throws {
        let sealing = AESSealing(Self.passphrase)
        for place in 0..<SealHeader.byteCount where !(16..<32).contains(place) {
            for bit in 0..<8 {
                var file = StoreVectors.passphraseSealed
                file[place] ^= 1 << bit
                #expect(Self.error(sealing, file) != nil, "bit \(bit) of byte \(place)")
            }
        }
        var salt = StoreVectors.passphraseSealed
        salt[20] ^= 1
        #expect(Self.error(sealing, salt) == .wrongKey)
    }

    @Test("every truncation, and every byte too many, is refused as damage")
    func truncations() throws {
        let sealing = AESSealing(Self.key)
        for count in StoreVectors.keySealed.indices {
            let error = Self.error(sealing, Array(StoreVectors.keySealed.prefix(count)))
            #expect(error == .damaged("it is truncated"), "\(count) bytes")
        }
        #expect(Self.error(sealing, StoreVectors.keySealed + [0]) == .damaged("bytes follow its end"))
        #expect(Self.error(sealing, [UInt8](repeating: 0, count: 400)) == .damaged("it is no store"))
        #expect(Self.error(sealing, Array("users: []\n".utf8)) == .damaged("it is no store"))
    }

    @Test("a wrong key, a wrong passphrase, a secret of the other kind and a later format are told apart from damage")
    func wrongKey() throws {
        let other = StoreSecret(.key, StoreSamples.secret(101..<133))
        #expect(Self.error(AESSealing(other), StoreVectors.keySealed) == .wrongKey)
        let another = StoreSecret(.passphrase, StoreSamples.secret("correct-horse"))
        #expect(Self.error(AESSealing(another), StoreVectors.passphraseSealed) == .wrongKey)
        #expect(Self.error(AESSealing(Self.passphrase), StoreVectors.keySealed) == .otherKind(isPassphrase: false))
        #expect(Self.error(AESSealing(Self.key), StoreVectors.passphraseSealed) == .otherKind(isPassphrase: true))
        var later = StoreVectors.keySealed
        later[9] = 3
        #expect(Self.error(AESSealing(Self.key), later) == .newerVersion(3))
        // A later format may be shorter than any of this one.
        #expect(Self.error(AESSealing(Self.key), Array(later.prefix(40))) == .newerVersion(3))
    }

    @Test(
        "forged scrypt parameters are refused before anything is computed",
        arguments: [(12, 31), (12, 13), (13, 255), (14, 255)])
    func forgedParameters(_ place: Int, _ value: Int) {
        var file = StoreVectors.passphraseSealed
        file[place] = UInt8(value)
        let error = Self.error(AESSealing(Self.passphrase), file)
        #expect(error == .unfit("its scrypt parameters are beyond what Lanyard writes"))
    }

    @Test("no two writes share salt, nonce or a byte's worth of ciphertext; an empty text can be sealed")
    func fresh() throws {
        let sealing = AESSealing(Self.key)
        let files = try (0..<50).map { _ in try Self.seal(sealing, StoreVectors.text) }
        #expect(Set(files.map { Array($0[40..<72]) }).count == 50)
        #expect(Set(files.map { Array($0[72..<84]) }).count == 50)
        #expect(Set(files.map { Array($0[88...]) }).count == 50)
        let empty = try Self.seal(sealing, [])
        #expect(try empty.withUnsafeBytes { try sealing.open($0) }.count == 0)
    }

    @Test("a passphrase is stretched once: a second process that meets another salt takes that one over")
    func stretchedOnce() throws {
        let one = AESSealing(Self.passphrase)
        let other = AESSealing(Self.passphrase)
        let first = try Self.seal(one, [1])
        let strange = try Self.seal(other, [2])
        #expect(first[16..<32] != strange[16..<32])
        _ = try first.withUnsafeBytes { try other.open($0) }
        #expect(try Self.seal(other, [3])[16..<32] == first[16..<32])
        // Without another stretching fifty seals cost less than the one stretching of a new passphrase.
        let start = ProcessorTime.usedByThread
        for _ in 0..<50 { _ = try Self.seal(one, [4]) }
        let fifty = ProcessorTime.usedByThread
        _ = try Self.seal(AESSealing(Self.passphrase), [5])
        #expect(fifty - start < ProcessorTime.usedByThread - fifty)
    }

    @Test("without random bytes nothing is sealed")
    func noEntropy() {
        let sealing = AESSealing(Self.key) { _ in false }
        #expect(throws: SealingError.failed("the random generator")) { try Self.seal(sealing, [1]) }
    }
}
