import Glibc
import LanyardVault

/// One process's way to the disk: where it can be told to die, before or after each call.
package final class FleetDiskGate: StoreDisk, @unchecked Sendable {
    let disk: FleetDisk
    /// Whose calls these are.
    let process: Int
    /// What the process is about, for the names of crash points.
    var work = CrashPoint.Work.open
    /// Dies at this call when it is about this work; `isLate`: when the call has done what it does.
    var armed: (point: CrashPoint, isLate: Bool)?
    /// Where it died: every call fails from then on.
    private(set) var died: CrashPoint?
    /// It dies at the next such call; `isLate`: when the call has done what it does.
    package func arm(_ point: CrashPoint, isLate: Bool) { armed = (point, isLate) }

    /// Asked before each call: another process may have its turn before it.
    var onCall: () -> Void = {}

    package init(_ disk: FleetDisk, process: Int) {
        self.disk = disk
        self.process = process
    }

    package var owner: UInt32 { 1000 }

    /// The process is gone.
    func die(at point: CrashPoint) {
        died = point
        disk.dropLocks(of: process)
    }

    /// `body` is the call's effect.
    func call<R>(
        _ call: CrashPoint.Call, isOfNewFile: Bool = false, _ body: () throws(DiskError) -> R
    ) throws(DiskError) -> R {
        guard died == nil else { throw DiskError(EIO, "dying") }
        onCall()
        // The power may have gone during `onCall`.
        guard died == nil else { throw DiskError(EIO, "dying") }
        let point = CrashPoint(work, call, isOfNewFile: isOfNewFile)
        let isArmed = armed?.point == point
        if isArmed, armed?.isLate == false { throw end(at: point) }
        let result = try body()
        if isArmed { throw end(at: point) }
        return result
    }

    private func end(at point: CrashPoint) -> DiskError {
        die(at: point)
        return DiskError(EIO, "dying")
    }

    package func inspectFolder() throws(DiskError) -> DiskEntry {
        try call(.inspect) { () throws(DiskError) in DiskEntry(.folder, owner: owner, mode: 0o700) }
    }

    package func read(
        _ name: String, bytesMax: Int, headByteCount: Int, from start: (DiskEntry, [UInt8]) -> Int
    ) throws(DiskError) -> DiskContent? {
        try call(.read) { () throws(DiskError) in
            guard let bytes = disk.content(of: name) else { return nil }
            let entry = DiskEntry(.file, owner: owner, mode: 0o600, size: bytes.count)
            guard bytes.count <= bytesMax else { return DiskContent(entry, bytes: nil) }
            let offset = start(entry, Array(bytes.prefix(headByteCount)))
            return DiskContent(entry, bytes: Array(bytes.dropFirst(offset)), offset: offset)
        }
    }

    package func extend(_ name: String, from offset: Int) throws(DiskError) -> any DiskWriter {
        try call(.extend) { () throws(DiskError) in
            FleetDraft(try disk.extend(name, from: offset), self, isNew: false)
        }
    }

    package func cut(_ name: String, to byteCount: Int) throws(DiskError) {
        try call(.cut) { () throws(DiskError) in try disk.cut(name, to: byteCount) }
    }

    package func syncFile(_ name: String) throws(DiskError) {
        try call(.synchronizeAgain) { () throws(DiskError) in try disk.synchronize(name) }
    }

    package func create(_ name: String) throws(DiskError) -> any DiskWriter {
        try call(.create, isOfNewFile: true) { () throws(DiskError) in
            FleetDraft(try disk.create(name), self, isNew: true)
        }
    }

    package func rename(_ name: String, to other: String) throws(DiskError) {
        try call(.rename, isOfNewFile: true) { () throws(DiskError) in try disk.rename(name, to: other) }
    }

    package func syncFolder() throws(DiskError) {
        try call(.synchronizeFolder, isOfNewFile: true) { () throws(DiskError) in try disk.synchronizeFolder() }
    }

    package func overwrite(_ name: String, at offset: Int, with bytes: [UInt8]) throws(DiskError) {
        try call(.overwrite) { () throws(DiskError) in try disk.overwrite(name, at: offset, with: bytes) }
    }

    package func remove(_ name: String) throws(DiskError) {
        try call(.unlink, isOfNewFile: true) { () throws(DiskError) in try disk.unlink(name) }
    }

    package func lock(_ name: String, _ kind: DiskLockKind) throws(DiskError) -> (any DiskLock)? {
        try call(.lock) { () throws(DiskError) in
            try disk.take(name, kind, for: process).map { FleetLock(name, $0, self) }
        }
    }
}

/// A file of the simulated disk that is being written.
final class FleetDraft: DiskWriter {
    private let file: FleetDisk.File
    private let gate: FleetDiskGate
    /// Made for this, and not added to.
    private let isNew: Bool

    init(_ file: FleetDisk.File, _ gate: FleetDiskGate, isNew: Bool) {
        self.file = file
        self.gate = gate
        self.isNew = isNew
    }

    func write(_ bytes: UnsafeRawBufferPointer) throws(DiskError) -> Int {
        try gate.call(.write, isOfNewFile: isNew) { () throws(DiskError) in try gate.disk.write(bytes, to: file) }
    }

    func sync() throws(DiskError) {
        try gate.call(.synchronize, isOfNewFile: isNew) { () throws(DiskError) in try gate.disk.synchronize(file) }
    }
}

/// A lock on a file of the simulated disk.
final class FleetLock: DiskLock, @unchecked Sendable {
    private let name: String
    private let number: UInt64
    private let gate: FleetDiskGate

    init(_ name: String, _ number: UInt64, _ gate: FleetDiskGate) {
        self.name = name
        self.number = number
        self.gate = gate
    }

    func release() {
        // The end of a process has given all of its locks back.
        guard gate.died == nil else { return }
        _ = try? gate.call(.unlock) { () throws(DiskError) in gate.disk.give(name, number) }
    }

    deinit { gate.disk.give(name, number) }
}
