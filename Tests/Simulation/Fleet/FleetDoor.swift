import Glibc
import Lanyard

/// One process's way to the disk: where it can be told to die, before or after each call.
package final class FleetDoor: StoreDisk, @unchecked Sendable {
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

    /// Asked before each call: another process may have its turn meanwhile.
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
    func call<R>(_ call: CrashPoint.Call, _ body: () throws(DiskFault) -> R) throws(DiskFault) -> R {
        guard died == nil else { throw DiskFault(EIO, "dying") }
        onCall()
        // The power may have gone meanwhile.
        guard died == nil else { throw DiskFault(EIO, "dying") }
        let isArmed = armed?.point == CrashPoint(work, call)
        if isArmed, armed?.isLate == false { throw end(call) }
        let result = try body()
        if isArmed { throw end(call) }
        return result
    }

    private func end(_ call: CrashPoint.Call) -> DiskFault {
        die(at: CrashPoint(work, call))
        return DiskFault(EIO, "dying")
    }

    package func lookAtFolder() throws(DiskFault) -> DiskEntry {
        try call(.inspect) { () throws(DiskFault) in DiskEntry(.folder, owner: owner, mode: 0o700) }
    }

    package func read(_ name: String, bytesMax: Int) throws(DiskFault) -> DiskContent? {
        try call(.read) { () throws(DiskFault) in
            guard let bytes = disk.content(of: name) else { return nil }
            let entry = DiskEntry(.file, owner: owner, mode: 0o600, size: bytes.count)
            return DiskContent(entry, bytes: bytes.count <= bytesMax ? bytes : nil)
        }
    }

    package func create(_ name: String) throws(DiskFault) -> any DiskDraft {
        try call(.create) { () throws(DiskFault) in FleetDraft(try disk.create(name), self) }
    }

    package func rename(_ name: String, to other: String) throws(DiskFault) {
        try call(.rename) { () throws(DiskFault) in try disk.rename(name, to: other) }
    }

    package func syncFolder() throws(DiskFault) {
        try call(.synchronizeFolder) { () throws(DiskFault) in try disk.synchronizeFolder() }
    }

    package func remove(_ name: String) throws(DiskFault) {
        try call(.unlink) { () throws(DiskFault) in try disk.unlink(name) }
    }

    package func lock(_ name: String, _ kind: DiskLockKind) throws(DiskFault) -> (any DiskLock)? {
        try call(.lock) { () throws(DiskFault) in
            try disk.take(name, kind, for: process).map { FleetLock(name, $0, self) }
        }
    }
}

/// A file of the simulated disk that is being written.
final class FleetDraft: DiskDraft {
    private let file: FleetDisk.File
    private let door: FleetDoor

    init(_ file: FleetDisk.File, _ door: FleetDoor) {
        self.file = file
        self.door = door
    }

    func write(_ bytes: UnsafeRawBufferPointer) throws(DiskFault) -> Int {
        try door.call(.write) { () throws(DiskFault) in try door.disk.write(bytes, to: file) }
    }

    func sync() throws(DiskFault) {
        try door.call(.synchronize) { () throws(DiskFault) in try door.disk.synchronize(file) }
    }
}

/// A lock on a file of the simulated disk.
final class FleetLock: DiskLock, @unchecked Sendable {
    private let name: String
    private let number: UInt64
    private let door: FleetDoor

    init(_ name: String, _ number: UInt64, _ door: FleetDoor) {
        self.name = name
        self.number = number
        self.door = door
    }

    func release() {
        // The end of a process has given all of its locks back.
        guard door.died == nil else { return }
        _ = try? door.call(.unlock) { () throws(DiskFault) in door.disk.give(name, number) }
    }

    deinit { door.disk.give(name, number) }
}
