/// What stands under the store's seal: `StoreContents` as bytes, in wiped memory (docs/store.md has them one by one).
///
/// There is exactly one text for each contents. The reader takes nothing else, is linear in the text and never traps, whatever the bytes
/// are; a secret goes from wiped block to wiped block.
package enum StoreText {
    /// Of the text. Some ten thousand users.
    package static let bytesMax = 16 << 20
    /// The newest that is read. Written is 1, or 2 where something must be told that 1 has no place for.
    static let version = 2
    static let secretBytesMax = 64 << 10
    static let textBytesMax = 1024
    static let fingerprintKeyByteCount = 32
    static let credentialFingerprintByteCount = 32
    static let identityFingerprintByteCount = 32

    /// Why bytes are no contents, or contents cannot become bytes.
    package enum FormatError: Error, Equatable, Sendable {
        /// Written by a later release.
        case newerVersion(Int)
        /// At this byte stands what nobody writes.
        case malformed(at: Int)
        /// Beyond a bound of the format, in plain words.
        case tooLarge(String)
    }

    /// The text of `contents`.
    ///
    /// - Throws: `tooLarge`. What was returned can be read again: it has been tried.
    package static func write(_ contents: StoreContents) throws(FormatError) -> Secret {
        var writer = StoreTextWriter()
        try writer.write(contents)
        let text = writer.finish()
        guard text.count <= bytesMax else { throw .tooLarge("the store is full: 16 MiB") }
        do throws(FormatError) {
            _ = try text.withBytes { bytes throws(FormatError) in try read(bytes) }
        } catch {
            throw .tooLarge("a value in it is beyond what the format can hold")
        }
        return text
    }

    /// The contents of a text.
    package static func read(_ text: UnsafeRawBufferPointer) throws(FormatError) -> StoreContents {
        var reader = StoreTextReader(text)
        return try reader.read()
    }

    /// What a user has, as bits.
    struct UserFlags: OptionSet {
        let rawValue: UInt16
        static let isAdded = UserFlags(rawValue: 1)
        static let isLoggedOut = UserFlags(rawValue: 2)
        static let session = UserFlags(rawValue: 4)
        static let account = UserFlags(rawValue: 8)
        static let provider = UserFlags(rawValue: 16)
        static let accountSince = UserFlags(rawValue: 32)
        static let intent = UserFlags(rawValue: 64)
        static let refused = UserFlags(rawValue: 128)
        /// From version 2 on.
        static let identityFingerprint = UserFlags(rawValue: 256)
        static let refusedCode = UserFlags(rawValue: 512)
        static let first = UserFlags(rawValue: 255)
        static let all = UserFlags(rawValue: 1023)
    }

    /// What a session has.
    struct SessionFlags: OptionSet {
        let rawValue: UInt8
        static let refresh = SessionFlags(rawValue: 1)
        static let refreshExpiry = SessionFlags(rawValue: 2)
        static let all = SessionFlags(rawValue: 3)
    }

    /// What a revocation has, from version 2 on.
    struct RevocationFlags: OptionSet {
        let rawValue: UInt8
        static let identityFingerprint = RevocationFlags(rawValue: 1)
    }

    /// Whether version 1 cannot hold them.
    static func needsVersion2(_ contents: StoreContents) -> Bool {
        contents.users.contains { $0.identityFingerprint != nil || $0.refused?.code != nil }
            || contents.revocations.contains { $0.fingerprint != nil }
    }

    /// What is said of the active user.
    struct ActiveFlags: OptionSet {
        let rawValue: UInt8
        static let isChosen = ActiveFlags(rawValue: 1)
        static let user = ActiveFlags(rawValue: 2)
        static let configured = ActiveFlags(rawValue: 4)
        static let all = ActiveFlags(rawValue: 7)
    }
}
