import LanyardFoundations
import LanyardSessionInterface

/// The records of `PATH.used` (docs/reference/store.md): refresh tokens that work only once, and that were sent while the store could not
/// take their intent, and configured credentials that have served their only login then. Each record lies in a block that exists, so a full
/// disk does not prevent it.
///
/// A record has 64 bytes, aligned, so that none crosses a sector: a loss of power leaves it as it was or as it is. It names
/// a token, or a credential's user, by a keyed hash. A record that names no stored one means nothing, and its place can be used again.
package struct UsedMarks: Equatable, Sendable {
    /// What a record says of the token that it names: what the token's intent would have said. Or of a user's configured credential: that
    /// it has served.
    struct Mark: Equatable, Sendable {
        /// How often the token was sent since the last response; 0 for a credential.
        var tries: Int
        /// When it was sent first without a response.
        var at: WallTime
        /// The bytes of the credential's fingerprint; nil: the mark is a token's.
        var credential: [UInt8]?

        /// It says nothing, and its record is removed.
        var isBlank: Bool { tries <= 0 && credential == nil }
    }

    static let recordByteCount = 64
    /// A block of common file systems.
    static let pageByteCount = 4096
    /// Of the whole file: more than any store can have users.
    static let bytesMax = 16 << 20
    private static let hashByteCount = 20
    private static let fingerprintByteCount = 32
    private static let tokenLabel = Array("lanyard used refresh token".utf8)
    private static let credentialLabel = Array("lanyard spent credential".utf8)

    /// The file's bytes; empty: there is no file that can be used.
    private(set) var bytes: [UInt8]
    /// Where records are, by the hash that they begin with. Nearly always none is.
    private var places: [[UInt8]: Int] = [:]

    package init(_ bytes: [UInt8] = []) {
        self.bytes = bytes
        bytes.withUnsafeBytes { all in
            for place in 0..<all.count / Self.recordByteCount {
                let record = UnsafeRawBufferPointer(rebasing: all[Self.range(of: place)])
                if !Self.isBlank(record) { places[Array(record.prefix(Self.hashByteCount))] = place }
            }
        }
    }

    private static func isBlank(_ record: UnsafeRawBufferPointer) -> Bool {
        var all: UInt64 = 0
        for word in 0..<recordByteCount / 8 { all |= record.loadUnaligned(fromByteOffset: word * 8, as: UInt64.self) }
        return all == 0
    }

    /// The length of the file for so many users: each can have a mark of its token and one of its credential, and as many places again are
    /// free.
    static func wantedByteCount(users: Int) -> Int {
        pageByteCount * (1 + users / (pageByteCount / recordByteCount / 4))
    }

    var recordCount: Int { bytes.count / Self.recordByteCount }

    /// No record: nothing has to be compared.
    var isBlank: Bool { places.isEmpty }

    /// The same with more free places.
    func padded(to byteCount: Int) -> UsedMarks {
        UsedMarks(bytes + [UInt8](repeating: 0, count: max(0, byteCount - bytes.count)))
    }

    // MARK: Records

    /// The name of a token in these records. It reveals nothing of the token without the store's key.
    package static func hash(of token: Secret, key: Secret) -> [UInt8] {
        Array(token.withBytes { KeyedHash.sha256($0, key: ownKey(tokenLabel, key)) }.prefix(hashByteCount))
    }

    /// The name of a user's credential in these records.
    static func hash(ofCredentialOf user: String, key: Secret) -> [UInt8] {
        let name = Array(user.utf8)
        return Array(
            name.withUnsafeBytes { KeyedHash.sha256($0, key: ownKey(credentialLabel, key)) }.prefix(hashByteCount))
    }

    private static func ownKey(_ label: [UInt8], _ key: Secret) -> Secret {
        let own = label.withUnsafeBytes { KeyedHash.sha256($0, key: key) }
        return Secret(capacity: own.count) { room in
            room.copyBytes(from: own)
            return own.count
        }
    }

    /// The place of the record with this name; nil: none.
    package func place(of hash: [UInt8]) -> Int? { places[hash] }

    /// What the record at `place` says: 20 bytes of the hash, 2 of tries, 2 of the kind, 8 of the time, 32 of a fingerprint.
    func mark(at place: Int) -> Mark {
        let rest = Array(bytes[Self.range(of: place).dropFirst(Self.hashByteCount)])
        let tries = Int(rest[0]) << 8 | Int(rest[1])
        let time = rest[4..<12].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        return Mark(
            tries: tries, at: WallTime(nanoseconds: Int64(bitPattern: time)),
            credential: rest[3] == 0 ? nil : Array(rest.suffix(Self.fingerprintByteCount)))
    }

    /// The bytes of a record.
    static func record(_ hash: [UInt8], _ mark: Mark) -> [UInt8] {
        let tries = UInt16(clamping: mark.tries)
        let time = UInt64(bitPattern: mark.at.nanoseconds)
        return hash + [UInt8(tries >> 8), UInt8(truncatingIfNeeded: tries), 0, mark.credential == nil ? 0 : 1]
            + (0..<8).map { UInt8(truncatingIfNeeded: time >> (56 - 8 * UInt64($0))) }
            + (mark.credential ?? [UInt8](repeating: 0, count: fingerprintByteCount))
    }

    static let blankRecord = [UInt8](repeating: 0, count: recordByteCount)

    /// Where a new record goes; nil: each place has the mark of a stored token.
    ///
    /// - Parameter live: the places whose tokens are stored.
    func freePlace(besides live: Set<Int>) -> Int? {
        let taken = Set(places.values)
        if let blank = (0..<recordCount).first(where: { !taken.contains($0) }) { return blank }
        // A record of no stored token may be of one that another process still has in memory: the oldest goes first.
        return (0..<recordCount).filter { !live.contains($0) }.min { mark(at: $0).at < mark(at: $1).at }
    }

    mutating func replace(at place: Int, with record: [UInt8]) {
        let range = Self.range(of: place)
        let former = Array(bytes[range].prefix(Self.hashByteCount))
        if places[former] == place { places[former] = nil }
        bytes.replaceSubrange(range, with: record)
        if record != Self.blankRecord { places[Array(record.prefix(Self.hashByteCount))] = place }
    }

    private static func range(of place: Int) -> Range<Int> {
        place * recordByteCount..<(place + 1) * recordByteCount
    }
}

extension UsedMarks {
    /// Opens the intent of each stored refresh token that has a mark: it was sent, and the store does not know of a response. A credential
    /// that has a mark has served its only login.
    ///
    /// - Returns: what has changed of the contents.
    @discardableResult
    func apply(to contents: inout StoreContents) -> StoreDelta {
        var delta = StoreDelta()
        for user in contents.users {
            var marked = user
            for place in places(of: user, contents.fingerprintKey) {
                let mark = mark(at: place)
                if let credential = mark.credential {
                    marked.refused = CredentialFingerprint(bytes: credential).spent
                } else {
                    marked.openIntent(tries: mark.tries, at: mark.at)
                }
            }
            delta += contents.put(marked)
        }
        return delta
    }

    /// The places whose tokens, or whose credentials' users, are stored.
    func livePlaces(in contents: StoreContents) -> Set<Int> {
        Set(contents.users.flatMap { places(of: $0, contents.fingerprintKey) })
    }

    /// Of the user's refresh token, and of its credential.
    private func places(of user: StoredUser, _ key: Secret) -> [Int] {
        let token = user.session?.refresh.flatMap { place(of: Self.hash(of: $0, key: key)) }
        let credential = place(of: Self.hash(ofCredentialOf: user.name, key: key))
        return [token, credential.flatMap { mark(at: $0).credential == nil ? nil : $0 }].compactMap(\.self)
    }
}
