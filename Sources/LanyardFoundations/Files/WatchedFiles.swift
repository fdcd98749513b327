/// The watched files of the process, and the names on which each depends: those that are looked up on the way to it.
///
/// A folder has one inotify watch, however many files depend on it. Ten thousand files are usual, so a file takes few bytes here: its names
/// are hashes. Two names of one hash in a folder cause a read that finds nothing new. Pure; belongs to `FileChangeMonitor`, which locks it.
struct WatchedFiles {
    /// A name in a folder, by the folder's number of inotify.
    struct Name: Hashable {
        let folder: Int32
        let hash: UInt32

        /// The hash has a key of this process.
        init(_ name: some Sequence<UInt8>, in folder: Int32) {
            var hasher = Hasher()
            for byte in name { hasher.combine(byte) }
            self.folder = folder
            hash = UInt32(truncatingIfNeeded: hasher.finalize())
        }
    }

    /// Names a file for as long as it has a watch. Numbers do not come again.
    struct ID: Hashable, Sendable {
        fileprivate let number: UInt32
    }

    /// One path with all of its watches.
    private struct File {
        let path: String
        var watches = SmallSet<Reference>()
        var names: [Name] = []
        /// When the latest read that was asked for here begins.
        var readAt = Instant.past
        /// It has not begun: it finds what changes until then.
        var isReadDue = false
        /// Walks along the path that have begun and not ended. Readers of several kinds may read one path.
        var walks: UInt8 = 0
        /// The way to the file may have changed.
        var mustWalk = true
        /// It is read in intervals.
        var isPolled = true
    }

    /// A watch, compared as an object.
    private struct Reference: Hashable {
        let watch: FileWatch

        static func == (left: Reference, right: Reference) -> Bool { left.watch === right.watch }
        func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(watch)) }
    }

    private struct Folder {
        /// Names in it on which files depend.
        var nameCount: Int32 = 0
        /// Why not all changes in it are noticed.
        let obstacle: FileNoticeError?
    }

    private var files: [ID: File] = [:]
    private var ids: [String: ID] = [:]
    private var dependents: [Name: SmallSet<ID>] = [:]
    private var folders: [Int32: Folder] = [:]
    private var ways = KnownWays()
    /// How often something has questioned the way to any file. Another walk of the same file does not hide it.
    private var questions: UInt64 = 0
    private var lastNumber: UInt32 = 0

    /// Files that are read in intervals.
    private(set) var polledCount = 0
    /// How often a folder was given up. A folder that was watched anew in that time may have lost its watch again.
    private(set) var givenUpCount = 0

    var count: Int { files.count }
    /// All files, in any order.
    var all: [ID] { Array(files.keys) }
    /// Folders that have a watch of inotify.
    var folderCount: Int { folders.count }

    // MARK: Watches

    /// Adds a watch of the file with this path.
    mutating func add(_ watch: FileWatch, of path: String) -> ID {
        let id = ids[path] ?? makeFile(path)
        files[id]?.watches.insert(Reference(watch: watch))
        return id
    }

    private mutating func makeFile(_ path: String) -> ID {
        lastNumber += 1
        let id = ID(number: lastNumber)
        files[id] = File(path: path)
        ids[path] = id
        polledCount += 1
        return id
    }

    /// Removes a watch, and its file with the last one.
    ///
    /// - Returns: folders on which no file depends any more.
    mutating func remove(_ watch: FileWatch, of id: ID) -> [Int32] {
        files[id]?.watches.remove(Reference(watch: watch))
        guard let file = files[id], file.watches.isEmpty else { return [] }
        files[id] = nil
        ids[file.path] = nil
        if file.isPolled { polledCount -= 1 }
        return file.names.compactMap { removeDependence(of: id, on: $0) }
    }

    /// Calls `body` with each watch of a file.
    func forEachWatch(of id: ID, _ body: (FileWatch) -> Void) { files[id]?.watches.forEach { body($0.watch) } }

    /// One of the watches of a file; nil: it has none.
    func anyWatch(of id: ID) -> FileWatch? { files[id]?.watches.first?.watch }

    /// The file with this path; nil: it has no watch.
    func file(at path: String) -> ID? { ids[path] }

    /// Whether the file is read in intervals. Of a removed one, too.
    func isPolled(_ id: ID) -> Bool { files[id]?.isPolled ?? true }

    // MARK: Walks

    /// Begins a walk along the path, if the way to the file may have changed.
    ///
    /// - Returns: how often a way has been questioned so far; nil: no walk is needed.
    mutating func beginWalk(_ id: ID) -> UInt64? {
        guard files[id]?.mustWalk == true else { return nil }
        files[id]?.mustWalk = false
        files[id]?.walks += 1
        return questions
    }

    /// Why not all changes in a watched folder are noticed; nil: the folder is not watched.
    func obstacle(inFolder folder: Int32) -> FileNoticeError?? { folders[folder].map(\.obstacle) }

    /// From here on the file depends on this name.
    ///
    /// - Parameter obstacle: of the name's folder.
    mutating func addDependence(of id: ID, on name: Name, _ obstacle: FileNoticeError?) {
        guard let file = files[id], !file.names.contains(name) else { return }
        files[id]?.names.append(name)
        if dependents[name] == nil {
            folders[name.folder, default: Folder(obstacle: obstacle)].nameCount += 1
        }
        dependents[name, default: SmallSet()].insert(id)
    }

    /// Ends a walk: the file depends on no other names than these.
    ///
    /// - Parameters:
    ///   - isPolled: not all changes of these names are noticed.
    ///   - repeats: another walk may find more.
    /// - Returns: folders on which no file depends any more.
    mutating func endWalk(_ id: ID, _ names: [Name], isPolled: Bool, repeats: Bool) -> [Int32] {
        guard var file = files[id] else { return [] }
        file.walks -= 1
        if file.isPolled != isPolled { polledCount += isPolled ? 1 : -1 }
        file.isPolled = isPolled
        if repeats { file.mustWalk = true }
        // Another walk in progress has added names of its own. The next walk removes what neither has found.
        let former = file.walks == 0 ? file.names.filter { !names.contains($0) } : []
        if !former.isEmpty { file.names = names }
        files[id] = file
        return former.compactMap { removeDependence(of: id, on: $0) }
    }

    /// Keeps the way to the file's folder, if no event has questioned it since the walk began.
    ///
    /// - Parameters:
    ///   - names: those of the walk, the file's own last.
    ///   - begin: as of `beginWalk`.
    mutating func keepWay(of id: ID, _ names: [Name], _ obstacle: FileNoticeError?, since begin: UInt64) {
        guard let file = files[id], questions == begin, let last = names.last,
            let (folder, _) = KnownWays.split(file.path), ways[folder] == nil
        else { return }
        ways.keep(
            KnownWays.Way(names: Array(names.dropLast()), folder: last.folder, obstacle: obstacle), to: folder)
    }

    /// Ends the walk of a file that is no link by the known way to its folder.
    ///
    /// - Returns: folders on which no file depends any more; nil: no way is known.
    mutating func endWalkByKnownWay(_ id: ID) -> [Int32]? {
        guard let path = files[id]?.path, let (folder, name) = KnownWays.split(path), let way = ways[folder] else {
            return nil
        }
        let names = way.names + [Name(name.utf8, in: way.folder)]
        for name in names { addDependence(of: id, on: name, folders[name.folder]?.obstacle) }
        return endWalk(id, names, isPolled: way.obstacle != nil, repeats: false)
    }

    /// - Returns: the name's folder, if no file depends on it any more.
    private mutating func removeDependence(of id: ID, on name: Name) -> Int32? {
        dependents[name]?.remove(id)
        guard dependents[name]?.isEmpty == true else { return nil }
        dependents[name] = nil
        folders[name.folder]?.nameCount -= 1
        guard folders[name.folder]?.nameCount == 0 else { return nil }
        folders[name.folder] = nil
        ways.forgetAll()
        givenUpCount += 1
        return name.folder
    }

    // MARK: Changes

    /// A name may lead elsewhere by now.
    mutating func forgetWays(by name: Name) {
        questions += 1
        ways.forget(name)
    }

    /// Any name may.
    mutating func forgetWays() {
        questions += 1
        ways.forgetAll()
    }

    /// The files that depend on a name.
    func dependents(on name: Name) -> SmallSet<ID> { dependents[name] ?? SmallSet() }

    /// The files that depend on any name of a folder. Looks at all names.
    func dependents(onFolder folder: Int32) -> Set<ID> {
        var found: Set<ID> = []
        for (name, ids) in dependents where name.folder == folder { ids.forEach { found.insert($0) } }
        return found
    }

    /// The next read of the file follows its path anew.
    mutating func requireWalk(_ id: ID) {
        questions += 1
        files[id]?.mustWalk = true
    }

    /// When the latest read that was asked for begins.
    func plannedRead(of id: ID) -> Instant { files[id]?.readAt ?? .past }

    mutating func planRead(of id: ID, at instant: Instant) {
        files[id]?.readAt = instant
        files[id]?.isReadDue = true
    }

    /// A read that was asked for is to come, not before then.
    func isReadDue(of id: ID, after instant: Instant) -> Bool {
        guard let file = files[id] else { return false }
        return file.isReadDue && file.readAt >= instant
    }

    /// A read of the file begins. Its loop's clock may be ahead of the one by which it was planned.
    mutating func beginRead(_ id: ID) { files[id]?.isReadDue = false }
}

/// A set that takes no memory of its own while it has at most one element.
enum SmallSet<Element: Hashable> {
    case none
    case one(Element)
    case many(Set<Element>)

    init() { self = .none }

    var isEmpty: Bool { count == 0 }

    var count: Int {
        switch self {
        case .none: 0
        case .one: 1
        case .many(let elements): elements.count
        }
    }

    /// Any element.
    var first: Element? {
        switch self {
        case .none: nil
        case .one(let element): element
        case .many(let elements): elements.first
        }
    }

    mutating func insert(_ element: Element) {
        switch consume self {
        case .none: self = .one(element)
        case .one(let other): self = other == element ? .one(other) : .many([other, element])
        case .many(var elements):
            elements.insert(element)
            self = .many(elements)
        }
    }

    mutating func remove(_ element: Element) {
        switch consume self {
        case .none: self = .none
        case .one(let other): self = other == element ? .none : .one(other)
        case .many(var elements):
            elements.remove(element)
            self = elements.isEmpty ? .none : .many(elements)
        }
    }

    func forEach(_ body: (Element) -> Void) {
        switch self {
        case .none: break
        case .one(let element): body(element)
        case .many(let elements): elements.forEach(body)
        }
    }
}
