import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// The plaintext under the store's seal: `StoreContents` as bytes, in wiped memory (docs/reference/store-format.md has them one by one).
///
/// Each contents has exactly one text. The reader accepts nothing else, is linear in the text and never traps, for any bytes. A secret is
/// copied only from wiped block to wiped block.
package enum StoreText {
    /// Bytes of a whole text: about ten thousand users. Format 2 has no such limit.
    package static let bytesMax = 16 << 20
    /// The version of the records of format 2.
    static let recordVersion = 8
    /// The newest version of a whole text that is read. Version 1 is written, or a later one if a value needs a field that those before
    /// lack.
    static let version = 7
    static let secretBytesMax = 64 << 10
    static let textBytesMax = 1024
    static let fingerprintKeyByteCount = 32
    static let credentialFingerprintByteCount = 32
    static let identityFingerprintByteCount = 32
    static let accountFingerprintByteCount = 32
    static let variantMarkByteCount = 32

    /// Why bytes cannot be read as contents, or contents cannot be written as bytes. A type of its own, because the text
    /// has no path: `StoreError` adds it with the remedy.
    package enum FormatError: Error, Equatable, Sendable {
        /// Written by a later release.
        case newerVersion(Int)
        /// Lanyard never writes such a byte at this offset.
        case malformed(at: Int)
        /// A value exceeds a bound of the format; the text names it.
        case tooLarge(String)
    }

    /// The text of `contents`.
    ///
    /// - Throws: `tooLarge`. The returned text has been read back successfully.
    package static func write(_ contents: StoreContents) throws(FormatError) -> Secret {
        var writer = StoreTextWriter()
        try writer.write(contents)
        let text = writer.finish()
        guard text.count <= bytesMax else { throw .tooLarge("format 1 holds 16 MiB, and this is more") }
        do throws(FormatError) {
            _ = try text.withBytes { bytes throws(FormatError) in try read(bytes) }
        } catch {
            throw .tooLarge("a value in it is beyond what the format can hold")
        }
        return text
    }

    /// The contents of a text.
    ///
    /// - Throws: `newerVersion` for a later release's text; `malformed` with the offset, or `tooLarge`, for one that Lanyard has not
    ///   written.
    package static func read(_ text: UnsafeRawBufferPointer) throws(FormatError) -> StoreContents {
        var reader = StoreTextReader(text)
        return try reader.read()
    }

    /// The parts of a user record, as bits.
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
        /// From version 6 on.
        static let subject = UserFlags(rawValue: 1024)
        /// From version 7 on.
        static let clientTries = UserFlags(rawValue: 2048)
        static let first = UserFlags(rawValue: 255)
        static let second = UserFlags(rawValue: 1023)
        static let sixth = UserFlags(rawValue: 2047)
        static let all = UserFlags(rawValue: 4095)

        /// Those that a text of this version can have.
        static func all(of version: Int) -> UserFlags {
            version == 1 ? .first : version < 6 ? .second : version == 6 ? .sixth : .all
        }
    }

    /// The parts of a session record.
    struct SessionFlags: OptionSet {
        let rawValue: UInt8
        static let refresh = SessionFlags(rawValue: 1)
        static let refreshExpiry = SessionFlags(rawValue: 2)
        static let second = SessionFlags(rawValue: 3)
        /// From version 3 on.
        static let variants = SessionFlags(rawValue: 4)
        static let third = SessionFlags(rawValue: 7)
        /// From version 4 on.
        static let hasRotated = SessionFlags(rawValue: 8)
        static let fourth = SessionFlags(rawValue: 15)
        /// From version 7 on.
        static let account = SessionFlags(rawValue: 16)
        static let grantedScopes = SessionFlags(rawValue: 32)
        static let hasMadeLastTry = SessionFlags(rawValue: 64)
        static let blockedVariants = SessionFlags(rawValue: 128)
        static let all = SessionFlags(rawValue: 255)

        /// Those that a text of this version can have.
        static func all(of version: Int) -> SessionFlags {
            version < 3 ? .second : version == 3 ? .third : version < 7 ? .fourth : .all
        }
    }

    /// The parts of a revocation record, from version 2 on.
    struct RevocationFlags: OptionSet {
        let rawValue: UInt8
        static let identityFingerprint = RevocationFlags(rawValue: 1)
        static let second = RevocationFlags(rawValue: 1)
        /// From version 6 on.
        static let accessToken = RevocationFlags(rawValue: 2)
        static let sixth = RevocationFlags(rawValue: 3)
        /// From version 7 on.
        static let byOperator = RevocationFlags(rawValue: 4)
        static let all = RevocationFlags(rawValue: 7)
    }

    /// The parts of a record of metadata, as bits.
    struct MetadataFlags: OptionSet {
        let rawValue: UInt8
        static let requiresPushedAuthorization = MetadataFlags(rawValue: 1)
        static let sendsIssuer = MetadataFlags(rawValue: 2)
        static let all = MetadataFlags(rawValue: 3)
    }

    /// The endpoints that are there, as bits, in the order in which they are written.
    struct EndpointFlags: OptionSet {
        let rawValue: UInt8
        static let all = EndpointFlags(rawValue: 31)
        static var paths: [WritableKeyPath<OAuthEndpoints, String?>] {
            [\.token, \.revocation, \.deviceAuthorization, \.authorization, \.pushedAuthorization]
        }
    }

    /// The parts of a token's variant, as bits.
    struct VariantFlags: OptionSet {
        let rawValue: UInt8
        static let audience = VariantFlags(rawValue: 1)
    }

    /// The first version that can hold the contents.
    static func version(for contents: StoreContents) -> Int {
        if contents.users.contains(where: needsSeventh) || contents.revocations.contains(where: \.isByOperator) {
            return 7
        }
        let needsSixth =
            contents.users.contains { $0.subject != nil } || contents.revocations.contains { $0.kind == .accessToken }
        if needsSixth { return 6 }
        if !contents.metadata.isEmpty { return 5 }
        if contents.users.contains(where: { $0.session?.hasRotated == true }) { return 4 }
        if contents.users.contains(where: { $0.session?.tokens.others.isEmpty == false }) { return 3 }
        let needsSecond =
            contents.users.contains { $0.identityFingerprint != nil || $0.refused?.code != nil }
            || contents.revocations.contains { $0.fingerprint != nil }
        return needsSecond ? 2 : 1
    }

    private static func needsSeventh(_ user: StoredUser) -> Bool {
        guard user.refused?.clientTries == nil else { return true }
        guard let session = user.session else { return false }
        return session.account != nil || session.grantedScopes != nil || session.hasMadeLastTry
            || !session.blockedVariants.isEmpty
    }

    /// The parts of the record of the active user.
    struct ActiveFlags: OptionSet {
        let rawValue: UInt8
        static let isChosen = ActiveFlags(rawValue: 1)
        static let user = ActiveFlags(rawValue: 2)
        static let configured = ActiveFlags(rawValue: 4)
        static let all = ActiveFlags(rawValue: 7)
    }
}
