//! This computer's own sensors: load, memory used, CPU temperature. Their own
//! thread looks at them, because some chips take milliseconds to answer and
//! sampling must not wait; a sample takes the figure of the last look. So at
//! 10 Hz some readings repeat: load and memory are fresh every 250 ms, the
//! temperature every second. A sensor that is not there is left out.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Instant;

use sysinfo::{Components, System};

use super::limits::{HOST_REFRESH, HOST_STALE, TEMPERATURE_REFRESH};
use super::source::{Figure, Source, SourceInfo};

/// Figures have two decimals.
const SCALE: u8 = 2;
const NEVER: u64 = u64::MAX;
const _: () = assert!(
    TEMPERATURE_REFRESH
        .as_millis()
        .is_multiple_of(HOST_REFRESH.as_millis())
);

/// The last look at one sensor.
#[derive(Debug)]
struct Cell {
    value: AtomicI32,
    /// Milliseconds since the probe started, or NEVER.
    seen_ms: AtomicU64,
}

impl Cell {
    fn new() -> Self {
        Self {
            value: AtomicI32::new(0),
            seen_ms: AtomicU64::new(NEVER),
        }
    }
}

/// Looks at this computer's sensors until it is dropped.
#[derive(Debug)]
pub(super) struct HostProbe {
    shared: Arc<Shared>,
    stop: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    started: Instant,
    load: Cell,
    memory: Cell,
    temperature: Cell,
}

impl Shared {
    fn set(&self, cell: &Cell, figure: Option<f64>) {
        let Some(value) = figure.and_then(scaled) else {
            return;
        };
        cell.value.store(value, Ordering::Relaxed);
        cell.seen_ms.store(self.now_ms(), Ordering::Release);
    }

    fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    fn get(&self, cell: &Cell) -> Figure {
        let seen_ms = cell.seen_ms.load(Ordering::Acquire);
        let value = cell.value.load(Ordering::Relaxed);
        let age_ms = self.now_ms().saturating_sub(seen_ms);
        if seen_ms == NEVER || u128::from(age_ms) > HOST_STALE.as_millis() {
            Figure::Stale
        } else {
            Figure::Value(value)
        }
    }
}

/// A figure as an integer of SCALE decimals; none if it is no number, or huge.
fn scaled(figure: f64) -> Option<i32> {
    let value = (figure * f64::from(10_i32.pow(u32::from(SCALE)))).round();
    (value.abs() <= f64::from(i32::MAX / 2)).then_some(value as i32)
}

impl HostProbe {
    /// Takes the first look before it returns.
    ///
    /// # Errors
    /// The system starts no thread.
    pub(super) fn start() -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            started: Instant::now(),
            load: Cell::new(),
            memory: Cell::new(),
            temperature: Cell::new(),
        });
        let mut eyes = Eyes::new();
        eyes.look(&shared, true);
        let (stop, stopped) = sync_channel::<()>(1);
        let thread = {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new()
                .name("sim-host-sensors".into())
                .spawn(move || {
                    let turns = TEMPERATURE_REFRESH.as_millis() / HOST_REFRESH.as_millis();
                    let mut turn = 0;
                    while stopped.recv_timeout(HOST_REFRESH) == Err(RecvTimeoutError::Timeout) {
                        turn = (turn + 1) % turns;
                        eyes.look(&shared, turn == 0);
                    }
                })?
        };
        Ok(Self {
            shared,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// The sensors that this computer has.
    pub(super) fn sources(&self) -> Vec<Source> {
        let rows = [
            (
                SourceInfo::new("load", "tasks", SCALE, (0, 10_000)),
                Which::Load,
            ),
            (
                SourceInfo::new("memory_used", "percent", SCALE, (0, 100)),
                Which::Memory,
            ),
            (
                SourceInfo::new("cpu_temperature", "degC", SCALE, (-50, 150)),
                Which::Temperature,
            ),
        ];
        rows.into_iter()
            .map(|(info, which)| {
                (
                    info,
                    HostSensor {
                        shared: Arc::clone(&self.shared),
                        which,
                    },
                )
            })
            .filter(|(_, sensor)| sensor.present())
            .map(|(info, sensor)| Source::host(info, sensor))
            .collect()
    }
}

impl Drop for HostProbe {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed, and there is nothing to save.
            let _ = thread.join();
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Which {
    Load,
    Memory,
    Temperature,
}

/// One sensor of this computer.
#[derive(Debug)]
pub(super) struct HostSensor {
    shared: Arc<Shared>,
    which: Which,
}

impl HostSensor {
    fn cell(&self) -> &Cell {
        match self.which {
            Which::Load => &self.shared.load,
            Which::Memory => &self.shared.memory,
            Which::Temperature => &self.shared.temperature,
        }
    }

    fn present(&self) -> bool {
        self.cell().seen_ms.load(Ordering::Acquire) != NEVER
    }

    pub(super) fn read(&self) -> Figure {
        self.shared.get(self.cell())
    }
}

/// The thread's half.
struct Eyes {
    system: Option<System>,
    components: Option<Components>,
}

impl Eyes {
    fn new() -> Self {
        Self {
            system: System::new().ok(),
            components: Components::new_with_refreshed_list().ok(),
        }
    }

    fn look(&mut self, shared: &Shared, temperature_too: bool) {
        let load = System::load_average().ok().map(|load| load.one);
        shared.set(&shared.load, load);
        shared.set(&shared.memory, self.memory_percent());
        if temperature_too {
            shared.set(&shared.temperature, self.temperature());
        }
    }

    fn memory_percent(&mut self) -> Option<f64> {
        let system = self.system.as_mut()?;
        system.refresh_memory();
        let total = system.total_memory();
        let used = total.saturating_sub(system.available_memory());
        (total > 0).then(|| used as f64 * 100.0 / total as f64)
    }

    /// The warmest of the sensors that look like the CPU's.
    fn temperature(&mut self) -> Option<f64> {
        let mut warmest: Option<f32> = None;
        for component in self.components.as_mut()?.iter_mut() {
            if !is_cpu(component.label()) {
                continue;
            }
            component.refresh();
            let Some(temperature) = component.temperature() else {
                continue;
            };
            if temperature.is_finite() {
                warmest = Some(warmest.map_or(temperature, |other| other.max(temperature)));
            }
        }
        warmest.map(f64::from)
    }
}

/// Whether a sensor of this name measures the CPU: Intel, AMD, ARM boards.
fn is_cpu(label: &str) -> bool {
    let label = label.to_ascii_lowercase();
    [
        "coretemp", "package", "core ", "k10temp", "tctl", "cpu", "soc", "x86_pkg",
    ]
    .iter()
    .any(|part| label.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_computer_has_load_and_memory() {
        let probe = HostProbe::start().unwrap();
        let sources = probe.sources();
        let names: Vec<&str> = sources.iter().map(|source| source.info.quantity).collect();
        assert_eq!(names[..2], ["load", "memory_used"]);
        for source in &sources {
            let (low, high) = source.info.range;
            let figure = source.read(forebay_wire::ids::Tick(0));
            let Figure::Value(value) = figure else {
                panic!("{}", source.info.quantity)
            };
            assert!(
                (low..=high).contains(&value),
                "{}: {value}",
                source.info.quantity
            );
        }
    }

    #[test]
    fn figures_without_a_meaning_are_left_out() {
        for (name, figure, want) in [
            ("two decimals", 21.455, Some(2146)),
            ("negative", -0.126, Some(-13)),
            ("not a number", f64::NAN, None),
            ("infinite", f64::INFINITY, None),
            ("huge", 1e9, None),
        ] {
            assert_eq!(scaled(figure), want, "{name}");
        }
    }

    #[test]
    fn a_figure_that_was_never_seen_is_stale() {
        let shared = Shared {
            started: Instant::now(),
            load: Cell::new(),
            memory: Cell::new(),
            temperature: Cell::new(),
        };
        assert_eq!(shared.get(&shared.load), Figure::Stale);
        shared.set(&shared.load, Some(f64::NAN));
        assert_eq!(shared.get(&shared.load), Figure::Stale);
        shared.set(&shared.load, Some(1.25));
        assert_eq!(shared.get(&shared.load), Figure::Value(125));
    }

    #[test]
    fn cpu_sensors_by_label() {
        for (label, want) in [
            ("coretemp Package id 0", true),
            ("k10temp Tctl", true),
            ("cpu_thermal temp1", true),
            ("nvme Composite KBG40", false),
            ("iwlwifi_1 temp1", false),
        ] {
            assert_eq!(is_cpu(label), want, "{label}");
        }
    }
}
