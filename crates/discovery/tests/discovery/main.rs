//! Tests of the public interface: the answers are Argo CD's.

#[cfg(test)]
mod agreement;
#[cfg(test)]
mod archive;
#[cfg(test)]
mod bounds;
#[cfg(test)]
mod disk;
#[cfg(test)]
mod entries;
#[cfg(test)]
mod explanations;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod links;
#[cfg(test)]
mod naive;
#[cfg(test)]
mod table;
#[cfg(test)]
mod upstream;
