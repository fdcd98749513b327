import LanyardFoundations
import LanyardSessionInterface

/// The texts of a store's records (docs/reference/store-format.md): a beginning, the whole contents in as many records as they need, then
/// one record for each write.
///
/// The reader is linear in the text and never traps, for any bytes. A secret is copied only from wiped block to wiped block.
package enum StoreRecordText {
    /// What the first record says.
    package struct Beginning: Equatable, Sendable {
        /// Writes up to these contents.
        var writes: UInt64
        var fingerprintKey: Secret
        /// Records that hold the contents, this one included.
        var recordCount: UInt32
    }

    /// One part of a record.
    package enum Item: Equatable, Sendable {
        case beginning(Beginning)
        case edit(StoreDelta.Edit)
    }

    enum Kind: UInt8 {
        /// The rest of the record is zeros.
        case end = 0
        case beginning = 1
        case user = 2
        case removedUser = 3
        case active = 4
        case revocation = 5
        case removedRevocation = 6
        case metadata = 7
    }

    /// Texts of the contents are cut here: each ends with the item that reaches it.
    static let byteCount = 64 << 10

    /// The whole contents, as the texts of a new file's first records.
    ///
    /// - Throws: `tooLarge`. The returned texts have been read back successfully.
    static func texts(of contents: StoreContents) throws(StoreText.FormatError) -> [Secret] {
        var edits: [StoreDelta.Edit] = contents.users.map { .user($0.name, $0) }
        if contents.active != nil { edits.append(.active(contents.active)) }
        for revocation in contents.revocations { edits.append(.addedRevocation(revocation)) }
        if !contents.metadata.isEmpty { edits.append(.metadata(contents.metadata)) }
        var parts: [Secret] = []
        var rest = edits[...]
        while !rest.isEmpty {
            let (text, count) = try text(rest, upTo: byteCount)
            parts.append(text)
            rest = rest.dropFirst(count)
        }
        guard let recordCount = UInt32(exactly: parts.count + 1) else { throw .tooLarge("more than 2^32 records") }
        let beginning = Beginning(
            writes: contents.writes, fingerprintKey: contents.fingerprintKey, recordCount: recordCount)
        return [try text([], upTo: .max, beginning).text] + parts
    }

    /// The text of one write.
    ///
    /// - Throws: `tooLarge`. The returned text has been read back successfully.
    package static func text(of edits: [StoreDelta.Edit]) throws(StoreText.FormatError) -> Secret {
        try text(edits[...], upTo: .max).text
    }

    private static func text(
        _ edits: ArraySlice<StoreDelta.Edit>, upTo byteCount: Int, _ beginning: Beginning? = nil
    ) throws(StoreText.FormatError) -> (text: Secret, count: Int) {
        var writer = StoreTextWriter()
        if let beginning { try writer.write(beginning) }
        var count = 0
        for edit in edits {
            try writer.write(edit)
            count += 1
            if writer.byteCount >= byteCount { break }
        }
        for _ in writer.byteCount..<RecordHeader.padded(writer.byteCount) { writer.byte(Kind.end.rawValue) }
        let text = writer.finish()
        do throws(StoreText.FormatError) {
            try read(text) { _ in }
        } catch {
            throw .tooLarge("a value in it is beyond what the format can hold")
        }
        return (text, count)
    }

    /// Reads the items of a record in order.
    ///
    /// - Throws: `newerVersion` for a later release's record; `malformed` with the offset for one that Lanyard has not written; the error
    ///   of `take`.
    static func read(
        _ text: Secret, _ take: (Item) throws(StoreText.FormatError) -> Void
    ) throws(StoreText.FormatError) {
        try text.withBytes { bytes throws(StoreText.FormatError) in try read(bytes, take) }
    }

    /// The same of lent bytes.
    ///
    /// - Throws: as the one above.
    package static func read(
        _ bytes: UnsafeRawBufferPointer, _ take: (Item) throws(StoreText.FormatError) -> Void
    ) throws(StoreText.FormatError) {
        var reader = StoreTextReader(bytes, version: StoreText.version)
        var isFirst = true
        while !reader.isAtEnd {
            guard let kind = Kind(rawValue: try reader.integer(UInt8.self)) else { throw reader.malformed }
            if kind == .end { return try reader.readZeros() }
            guard kind != .beginning || isFirst else { throw reader.malformed }
            isFirst = false
            try take(try reader.item(kind))
        }
    }
}

extension StoreTextWriter {
    fileprivate mutating func write(_ beginning: StoreRecordText.Beginning) throws(StoreText.FormatError) {
        kind(.beginning)
        integer(UInt16(StoreText.recordVersion))
        integer(beginning.writes)
        integer(beginning.recordCount)
        try write(fingerprintKey: beginning.fingerprintKey)
    }

    fileprivate mutating func write(_ edit: StoreDelta.Edit) throws(StoreText.FormatError) {
        switch edit {
        case .user(_, let user?):
            kind(.user)
            try write(user)
        case .user(let name, nil):
            kind(.removedUser)
            try text(name)
        case .active(let choice):
            kind(.active)
            try write(choice)
        case .addedRevocation(let revocation):
            kind(.revocation)
            try write(revocation, StoreText.version)
        case .removedRevocation(let place):
            kind(.removedRevocation)
            guard let place = UInt32(exactly: place) else { throw .tooLarge("more than 2^32 revocations") }
            integer(place)
        case .metadata(let all):
            kind(.metadata)
            try count(all.count, "servers' metadata")
            for metadata in all { try write(metadata) }
        }
    }

    private mutating func kind(_ kind: StoreRecordText.Kind) { byte(kind.rawValue) }
}

extension StoreTextReader {
    fileprivate mutating func item(
        _ kind: StoreRecordText.Kind
    ) throws(StoreText.FormatError) -> StoreRecordText.Item {
        switch kind {
        case .beginning: return .beginning(try beginning())
        case .user:
            let user = try user()
            return .edit(.user(user.name, user))
        case .removedUser: return .edit(.user(try name(), nil))
        case .active: return .edit(.active(try active()))
        case .revocation: return .edit(.addedRevocation(try revocation()))
        case .removedRevocation: return .edit(.removedRevocation(Int(try integer(UInt32.self))))
        case .metadata: return .edit(.metadata(try allMetadata()))
        case .end: throw malformed
        }
    }

    private mutating func beginning() throws(StoreText.FormatError) -> StoreRecordText.Beginning {
        let version = Int(try integer(UInt16.self))
        guard version <= StoreText.recordVersion else { throw .newerVersion(version) }
        guard version == StoreText.recordVersion else { throw malformed }
        let writes = try integer(UInt64.self)
        let count = try integer(UInt32.self)
        guard count > 0 else { throw malformed }
        return StoreRecordText.Beginning(writes: writes, fingerprintKey: try fingerprintKey(), recordCount: count)
    }

    /// The rest is zeros, less than would make a record longer.
    fileprivate mutating func readZeros() throws(StoreText.FormatError) {
        var count = 1
        while !isAtEnd {
            guard try integer(UInt8.self) == 0, count < RecordHeader.byteCount else { throw malformed }
            count += 1
        }
    }
}
