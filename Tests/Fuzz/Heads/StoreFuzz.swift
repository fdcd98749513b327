import LanyardFoundations
import LanyardRequestPath
import LanyardSessionInterface
import LanyardVault

/// Holds the readers of the store to their promises: there is one text for each contents, no text continues another, and whatever lies on
/// the disk is no seal of ours.
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

    /// The corpus holds a file that this key has sealed; what is cut off from it does not open.
    private func checkSeal(_ bytes: Bytes) throws(BrokenPromise) {
        guard (try? sealing.open(UnsafeRawBufferPointer(endRoom.atEnd(bytes)))) != nil else { return }
        let cut = endRoom.atEnd(bytes[run: 0..<(bytes.count - 1)])
        try BrokenPromise.unless((try? sealing.open(UnsafeRawBufferPointer(cut))) == nil, "a truncated file was opened")
    }
}
