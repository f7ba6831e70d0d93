//! Runs every target over its corpus and over mutations of it, from seeds: what was
//! found once stays found. A new find goes into `corpus/<target>` as a file.
// Helpers of a test are tests too.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::panic::catch_unwind;
use std::path::Path;

use forebay_fuzz::TARGETS;

/// Mutations of each file.
const ROUNDS: u64 = 2_000;
/// Longest input that a mutation makes.
const INPUT_BYTES_MAX: usize = 8_192;

/// SplitMix64: enough for choosing bytes.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    fn below(&mut self, most: usize) -> usize {
        (self.next() % most.max(1) as u64) as usize
    }
}

fn corpus() -> BTreeMap<String, Vec<(String, Vec<u8>)>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let entries = |folder: &Path| {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths
    };
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let files = |folder: &Path| {
        let paths = entries(folder).into_iter();
        paths
            .map(|path| (name(&path), std::fs::read(&path).unwrap()))
            .collect()
    };
    entries(&root)
        .iter()
        .map(|folder| (name(folder), files(folder)))
        .collect()
}

/// One to four small damages, or a part of another file in the middle.
fn mutated(bytes: &[u8], others: &[(String, Vec<u8>)], random: &mut Random) -> Vec<u8> {
    const TELLING: [u8; 8] = [0, 1, 0x7F, 0x80, 0xFE, 0xFF, b'"', b'{'];
    let mut out = bytes.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(out.len() + 1);
        match random.below(7) {
            0 if at < out.len() => out[at] ^= 1 << random.below(8),
            1 if at < out.len() => out[at] = random.next() as u8,
            2 if at < out.len() => out[at] = TELLING[random.below(TELLING.len())],
            3 if at < out.len() => drop(out.remove(at)),
            4 => out.insert(at, TELLING[random.below(TELLING.len())]),
            5 => out.truncate(at),
            _ => {
                let (_, other) = &others[random.below(others.len())];
                let from = random.below(other.len() + 1);
                let to = from + random.below(other.len() - from + 1);
                out.splice(at..at, other[from..to].iter().copied());
            }
        }
    }
    out.truncate(INPUT_BYTES_MAX);
    out
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn every_target_has_a_corpus_and_every_corpus_a_target() {
    let folders: Vec<_> = corpus().into_keys().collect();
    let mut targets: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
    targets.sort_unstable();
    assert_eq!(folders, targets);
    for (name, files) in corpus() {
        assert!(files.len() >= 2, "{name}: {} files", files.len());
    }
}

#[test]
fn the_corpus_and_mutations_of_it() {
    let corpus = corpus();
    for target in TARGETS {
        let files = &corpus[target.name];
        for (file, bytes) in files {
            let whole = catch_unwind(|| (target.run)(bytes));
            assert!(whole.is_ok(), "{} {file}", target.name);
            let mut random = Random(bytes.len() as u64);
            for round in 0..ROUNDS {
                let input = mutated(bytes, files, &mut random);
                let run = catch_unwind(|| (target.run)(&input));
                assert!(
                    run.is_ok(),
                    "{} {file} round {round}: {}",
                    target.name,
                    hex(&input)
                );
            }
        }
    }
}

#[test]
fn every_golden_line_is_in_the_corpus() {
    const GOLDEN: &str = include_str!("../../../shared/tests/golden/v1.txt");
    let corpus = corpus();
    for line in GOLDEN.lines().filter(|line| !line.starts_with('#')) {
        let (name, bytes) = line.split_once(" = ").unwrap();
        let bytes = bytes
            .split(' ')
            .map(|byte| u8::from_str_radix(byte, 16).unwrap());
        let bytes: Vec<u8> = bytes.collect();
        let has = |target: &str| corpus[target].iter().any(|(_, file)| *file == bytes);
        assert!(has("device_line") || has("gateway_line"), "{name}");
    }
}

#[test]
fn every_golden_message_is_in_the_corpus() {
    const COMPACT: &str = include_str!("../../../agent/core/tests/golden/compact_v1.txt");
    const ZSTD: &str = include_str!("../../../agent/core/tests/golden/zstd.txt");
    const JSON: &str = include_str!("../../../agent/core/tests/golden/json_v2.txt");
    let corpus = corpus();
    let has = |bytes: &[u8]| corpus["payload"].iter().any(|(_, file)| file == bytes);
    let lines: Vec<_> = JSON.lines().collect();
    for pair in lines.chunks(2) {
        assert!(has(pair[1].as_bytes()), "{}", pair[0]);
    }
    for file in [COMPACT, ZSTD] {
        for message in file.split_inclusive(":\n").collect::<Vec<_>>().windows(2) {
            // What ends with the name of the next one.
            let hex = message[1].lines().filter(|line| !line.ends_with(':'));
            let bytes: Vec<u8> = hex
                .flat_map(|line| line.as_bytes().chunks(2))
                .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
                .collect();
            assert!(has(&bytes), "{}", message[0]);
        }
    }
}
