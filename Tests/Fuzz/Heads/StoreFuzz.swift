import LanyardFoundations
import LanyardRequestPath
import LanyardSessionInterface
import LanyardVault

/// Holds the readers of the store to their promises: there is one text for each contents, no text continues another, a record of format 2
/// that is read can be written again, and whatever lies on the disk is no seal of ours.
final class StoreFuzz: FuzzTarget {
    private static let bytesMax = 64 << 10

    private let startRoom = GuardedRoom(capacity: bytesMax)
    private let endRoom = GuardedRoom(capacity: bytesMax)
    private let sealing = AESSealing(
        StoreSecret(
            .key,
            Secret(capacity: 32) { room in
                for index in room.indices { room[index] = UInt8(100 + index) }
                return 32
            }))

    func check(_ input: Bytes) throws(BrokenPromise) {
        let bytes = input[run: 0..<min(input.count, Self.bytesMax)]
        let atStart = read(startRoom.atStart(bytes))
        let atEnd = read(endRoom.atEnd(bytes))
        switch (atStart, atEnd) {
        case (.success(let contents), .success(let again)):
            try BrokenPromise.unless(contents == again, "a text's meaning depends on where it stands")
            try checkWritten(contents, bytes)
        case (.failure(let problem), .failure(let again)):
            try BrokenPromise.unless(problem == again, "a text's fault depends on where it stands")
            if case .malformed(let place) = problem {
                try BrokenPromise.unless((0...bytes.count).contains(place), "a fault behind the text")
            }
        default: throw BrokenPromise("a text is taken or not by where it stands")
        }
        try checkCuts(bytes, isText: (try? atStart.get()) != nil)
        try checkRecord(bytes)
        try checkSeal(bytes)
    }

    private func read(_ bytes: Bytes) -> Result<StoreContents, StoreText.FormatError> {
        do throws(StoreText.FormatError) {
            return .success(try StoreText.read(UnsafeRawBufferPointer(bytes)))
        } catch {
            return .failure(error)
        }
    }

    private func checkWritten(_ contents: StoreContents, _ bytes: Bytes) throws(BrokenPromise) {
        let written = try? StoreText.write(contents)
        let isSame = written?.withBytes { $0.elementsEqual(UnsafeRawBufferPointer(bytes)) }
        try BrokenPromise.unless(isSame == true, "written anew, the contents have another text")
    }

    private func checkCuts(_ bytes: Bytes, isText: Bool) throws(BrokenPromise) {
        guard isText, bytes.count > 0 else { return }
        var cuts = FuzzCuts(bytes)
        for _ in 0..<4 {
            let end = Int(cuts.next() % UInt64(bytes.count))
            guard case .failure = read(endRoom.atEnd(bytes[run: 0..<end])) else {
                throw BrokenPromise("a truncated text is taken")
            }
        }
    }

    /// What a record of format 2 says can be said again, and means the same.
    private func checkRecord(_ bytes: Bytes) throws(BrokenPromise) {
        guard let items = items(UnsafeRawBufferPointer(endRoom.atEnd(bytes))) else { return }
        var edits: [StoreDelta.Edit] = []
        for item in items { if case .edit(let edit) = item { edits.append(edit) } }
        guard edits.count == items.count, !edits.isEmpty else { return }
        let again = (try? StoreRecordText.text(of: edits)).flatMap { text in text.withBytes { self.items($0) } }
        try BrokenPromise.unless(again == items, "a record written anew says something else")
    }

    private func items(_ bytes: UnsafeRawBufferPointer) -> [StoreRecordText.Item]? {
        var items: [StoreRecordText.Item] = []
        do throws(StoreText.FormatError) {
            try StoreRecordText.read(bytes) { items.append($0) }
            return items
        } catch {
            return nil
        }
    }

    /// The corpus holds a file of format 2 that this key has sealed. Without its end it lacks its last write, or does not open.
    private func checkLog(_ file: [UInt8]) throws(BrokenPromise) {
        guard let contents = try? StoreFile.contents(of: file, sealing: sealing), file.starts(with: Self.log) else {
            return
        }
        let cut = try? StoreFile.contents(of: file.dropLast(), sealing: sealing)
        try BrokenPromise.unless(
            cut == nil || cut?.writes == contents.writes - 1 || cut == contents, "a cut changes what was stored before")
    }

    private static let log = Array("LANYSTOR".utf8) + [0, 2]

    /// The corpus holds a file that this key has sealed; what is cut off from it does not open.
    private func checkSeal(_ bytes: Bytes) throws(BrokenPromise) {
        try checkLog(Array(UnsafeRawBufferPointer(bytes)))
        guard (try? sealing.open(UnsafeRawBufferPointer(endRoom.atEnd(bytes)))) != nil else { return }
        let cut = endRoom.atEnd(bytes[run: 0..<(bytes.count - 1)])
        try BrokenPromise.unless((try? sealing.open(UnsafeRawBufferPointer(cut))) == nil, "a truncated file was opened")
    }
}
