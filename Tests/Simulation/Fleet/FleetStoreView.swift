import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings
import LanyardVault

/// Reads the store from outside as a new process would, and keeps what it has read: only what was added since is opened.
///
/// One look in 64 opens the whole file beside it: both must say the same.
final class FleetStoreView {
    private let source = FleetViewDisk()
    private let file: StoreFile
    private let sealing: CheapSealing
    private var version = UInt64.max
    private var contents: StoreContents?
    private var looks: UInt64 = 0
    /// What was added was not read as the whole file is.
    private(set) var differs = false

    init(_ path: StorePath, sealing: CheapSealing) {
        self.sealing = sealing
        source.name = path.name
        file = StoreFile(path, on: source, sealing: sealing, fingerprintKey: Secret(capacity: 32) { _ in 32 })
    }

    /// - Parameters:
    ///   - version: of what `bytes` returns.
    ///   - bytes: the file; nil: there is none.
    /// - Returns: nil: there is no file that can be opened.
    func contents(_ version: UInt64, _ bytes: () -> [UInt8]?) -> StoreContents? {
        guard version != self.version else { return contents }
        self.version = version
        source.bytes = bytes()
        contents = source.bytes == nil ? nil : try? file.read()
        _ = file.takeLogEvents()
        looks &+= 1
        if looks & 63 == 0, let bytes = source.bytes {
            differs = differs || (try? StoreFile.contents(of: bytes, sealing: sealing)) != contents
        }
        return contents
    }
}

/// One file that can be read, and nothing else.
private final class FleetViewDisk: StoreDisk, @unchecked Sendable {
    var name = ""
    var bytes: [UInt8]?
    let owner: UInt32 = 1000

    func inspectFolder() throws(DiskError) -> DiskEntry { DiskEntry(.folder, owner: owner, mode: 0o700) }

    func read(
        _ name: String, bytesMax: Int, headByteCount: Int, from start: (DiskEntry, [UInt8]) -> Int
    ) throws(DiskError) -> DiskContent? {
        guard name == self.name, let bytes else { return nil }
        let entry = DiskEntry(.file, owner: owner, mode: 0o600, size: bytes.count)
        let offset = start(entry, Array(bytes.prefix(headByteCount)))
        return DiskContent(entry, bytes: Array(bytes.dropFirst(offset)), offset: offset)
    }

    func syncFile(_ name: String) throws(DiskError) {}
    func syncFolder() throws(DiskError) {}

    func create(_ name: String) throws(DiskError) -> any DiskWriter { throw Self.isForReading }
    func extend(_ name: String, from offset: Int) throws(DiskError) -> any DiskWriter { throw Self.isForReading }
    func cut(_ name: String, to byteCount: Int) throws(DiskError) { throw Self.isForReading }
    func rename(_ name: String, to other: String) throws(DiskError) { throw Self.isForReading }
    func overwrite(_ name: String, at offset: Int, with bytes: [UInt8]) throws(DiskError) { throw Self.isForReading }
    func remove(_ name: String) throws(DiskError) { throw Self.isForReading }
    func lock(_ name: String, _ kind: DiskLockKind) throws(DiskError) -> (any DiskLock)? { throw Self.isForReading }

    private static let isForReading = DiskError(9, "looking")
}
